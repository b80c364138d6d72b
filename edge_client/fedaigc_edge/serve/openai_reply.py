"""What every answer in OpenAI's form shares: usage, and our own evidence."""

from __future__ import annotations

from typing import Any

from fedaigc_edge.serve.sealed_answer import SealedAnswer, output_id
from fedaigc_edge.serve.stage_clock import StageTimes


def usage(sealed: SealedAnswer) -> dict[str, Any]:
    """The tokens of a request: a prompt with several choices once, every candidate's completion."""
    answer = sealed.answer
    prompt, completed = answer.head.reservation.prompt_tokens, answer.completion_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completed,
        "total_tokens": prompt + completed,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def evidence(sealed: SealedAnswer, times: StageTimes | None) -> dict[str, Any]:
    """Under which policy it was made and what was recorded; stage times when they were asked for."""
    answer = sealed.answer
    request = answer.head.reservation.permit.request.id
    record: dict[str, Any] = {
        "request_id": request,
        "policy_version": answer.head.policy,
        "fingerprint_seq": sealed.evidence[0].seq,
    }
    if len(answer.choices) > 1:
        record["choices"] = [
            {
                "index": choice.index,
                "request_id": output_id(request, choice.index),
                "fingerprint_seq": item.seq,
            }
            for choice, item in zip(answer.choices, sealed.evidence, strict=True)
        ]
    if answer.ranking is not None:
        ranking = answer.ranking
        record |= {
            "best_of": len(ranking.scores),
            "chosen": ranking.chosen,
            "scores": list(ranking.scores),
            "head_policy": ranking.head_policy,
            "ranked_by": "mean_logprob" if ranking.head_policy is None else "reward_head",
        }
    if times is not None:
        record["timings_ms"] = times.milliseconds()
    return record
