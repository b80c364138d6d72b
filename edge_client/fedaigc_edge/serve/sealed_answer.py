"""Make an answer's evidence durable: only then may its last byte leave."""

from __future__ import annotations

import asyncio
from dataclasses import InitVar, dataclass

from fedaigc.identifiers import RequestId
from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.evidence.output import Output, SealedOutput
from fedaigc_edge.serve.answer import Answer, Choice
from fedaigc_edge.serve.stage_clock import StageClock
from fedaigc_edge.step import Maker, made_only_by


class _Seal(Maker):
    """Held by this module alone."""


_SEAL = _Seal()


@dataclass(frozen=True)
class SealedAnswer:
    """An answer whose evidence is on disk. Made by `seal` only; its receipt comes with the next delivery."""

    answer: Answer
    evidence: tuple[SealedOutput, ...]
    """One for each choice, in the same order."""
    maker: InitVar[_Seal]

    def __post_init__(self, maker: _Seal) -> None:
        made_only_by(maker, _SEAL, "seal")


def output_id(request: RequestId, index: int) -> RequestId:
    """The name of one choice in evidence and feedback: the first has the request's own."""
    return request if index == 0 else RequestId(f"{request}-{index}")


async def seal(
    answer: Answer, outbox: Outbox, base_model: str, clock: StageClock | None = None
) -> SealedAnswer:
    """Fingerprint, number and write every choice; `base_model` is the model's BLAKE3, hexadecimal.

    The choices are handed to the writer at one moment, so that they share a commit. Raises StorageError when
    any evidence could not be written: the answer must not be completed then.
    """
    permit = answer.head.reservation.permit

    def output(choice: Choice) -> Output:
        return Output(
            request=output_id(permit.request.id, choice.index),
            text=choice.text,
            policy=answer.head.policy,
            rules=permit.rules,
            model=base_model,
            finish=choice.finish,
            tokens=choice.tokens,
        )

    evidence: list[SealedOutput] = []
    with (clock or StageClock()).seal(lambda: sum(item.sealing_ns for item in evidence)):
        written = [asyncio.wrap_future(outbox.seal(output(choice))) for choice in answer.choices]
        # Shielded: once submitted it will be written, whether or not anybody still waits.
        evidence += await asyncio.shield(asyncio.gather(*written))
    return SealedAnswer(answer, tuple(evidence), _SEAL)
