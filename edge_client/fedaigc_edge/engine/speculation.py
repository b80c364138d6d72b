"""Draft tokens for an answer that is alone, looked up in its own text; the model checks them in one step.

Every token is chosen by the answer's own sampler from the model's own logits, and a draft only decides how
many of them one step yields. The runtime rounds a token among several otherwise than alone, though: on a
model with 8-bit activations that can tip a near tie. So an answer that the caller can expect to repeat,
greedy or with a seed, is written without drafts unless the device's owner wants them always.
"""

from __future__ import annotations

from fedaigc_edge.engine.draft_length import DraftBounds, DraftLength, StepCosts
from fedaigc_edge.engine.prompt_lookup import PromptLookup
from fedaigc_edge.engine.running_answer import RunningAnswer


class Speculation:
    """Proposes drafts and learns from how many were right. Used from the engine's thread.

    Args:
        bounds: of a draft's length; None drafts nothing.
        always: whether also answers that should repeat are drafted.
    """

    def __init__(self, bounds: DraftBounds | None, always: bool = False) -> None:
        self._bounds = bounds
        self._always = always
        self._costs = StepCosts()

    def draft(self, answer: RunningAnswer) -> list[int]:
        """Tokens that may come next; none when drafts do not pay, or there is nothing to look up."""
        if self._bounds is None or answer.job.features or answer.tokens_left < 2:
            return []
        if not self._always and answer.job.sampling.repeatable:
            return []
        if answer.lookup is None or answer.draft_length is None:
            answer.lookup = PromptLookup([*answer.job.prompt, *answer.written])
            answer.draft_length = DraftLength(self._bounds, self._costs)
        longest = min(answer.draft_length.next(), answer.tokens_left - 1)
        return answer.lookup.propose(longest) if longest > 0 else []

    def note(self, answer: RunningAnswer, proposed: int, accepted: int, seconds: float) -> None:
        """What came of a draft, and how long its step took; `proposed` 0 is a plain step."""
        if answer.draft_length is None:
            return
        if proposed:
            answer.draft_length.note(proposed, accepted, seconds)
        else:
            answer.draft_length.note_plain(seconds)
