"""One judged pair: a prompt, the preferred answer and the other one. It never leaves the device."""

from __future__ import annotations

from dataclasses import dataclass

from fedaigc.canonical import Json
from fedaigc.errors import VerificationFailed
from fedaigc.fields import fields_of
from fedaigc.signing import b64, unb64

ROLES = ("system", "user", "assistant")
SOURCES = ("pair", "thumbs", "edit")
"""Both answers given by the user, two rated answers to one prompt, or an answer and its correction."""

MAX_TURNS = 64
MAX_TEXT = 32_768
"""Characters in one turn or answer; longer feedback is refused, not cut, where it comes in."""

COMMITMENT_BYTES = 32
MAX_COMMITMENTS = 2


@dataclass(frozen=True)
class Turn:
    """One message of a prompt; `repr` shows nothing of it."""

    role: str
    content: str

    def __repr__(self) -> str:
        """Never the content."""
        return "Turn(...)"


@dataclass(frozen=True)
class Preference:
    """One judged pair, the unit of privacy.

    Args:
        id: its name on the device.
        prompt: the turns before the answer.
        chosen, rejected: the two answers.
        source: one of SOURCES.
        weight: above 0, at most 1; scales the pair's loss before its gradient is clipped.
        commitments: those of its answers that this device generated and recorded, 32 bytes each.
    """

    id: str
    prompt: tuple[Turn, ...]
    chosen: str
    rejected: str
    source: str
    weight: float = 1.0
    commitments: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        fields = fields_of(dict(vars(self)), "preference")
        fields.text("id", 64)
        fields.number("weight", 1e-6, 1.0)
        texts = [self.chosen, self.rejected, *(turn.content for turn in self.prompt)]
        roles = {turn.role for turn in self.prompt}
        if not 1 <= len(self.prompt) <= MAX_TURNS or not roles <= set(ROLES) or self.source not in SOURCES:
            raise _misfit("its prompt or source is not of a known form")
        if any(len(text) > MAX_TEXT for text in texts):
            raise _misfit(f"a text passes {MAX_TEXT} characters")
        if not self.chosen or not self.rejected or self.chosen == self.rejected:
            raise _misfit("its two answers must differ and hold something")
        if len(self.commitments) > MAX_COMMITMENTS or {len(c) for c in self.commitments} - {COMMITMENT_BYTES}:
            raise _misfit("its commitments are malformed")

    def __repr__(self) -> str:
        """The id alone: prompt and answers are the user's."""
        return f"Preference({self.id})"

    def to_json(self) -> dict[str, Json]:
        """The pair as a JSON object, for files that only the device's owner can read."""
        return {
            **vars(self),
            "prompt": [[turn.role, turn.content] for turn in self.prompt],
            "commitments": [b64(commitment) for commitment in self.commitments],
        }

    @classmethod
    def from_json(cls, value: Json) -> Preference:
        """Read `to_json`; raises VerificationFailed, which never quotes a text."""
        fields = fields_of(value, "preference")
        fields.only(*cls.__dataclass_fields__)
        turns = fields.listed("prompt", MAX_TURNS)
        if not all(isinstance(turn, list) and len(turn) == 2 for turn in turns):
            raise _misfit("its prompt is not a list of turns")
        return cls(
            id=fields.text("id", 64),
            prompt=tuple(Turn(str(role), str(content)) for role, content in turns),
            chosen=fields.text("chosen", MAX_TEXT),
            rejected=fields.text("rejected", MAX_TEXT),
            source=fields.text("source"),
            weight=fields.number("weight"),
            commitments=tuple(
                unb64(c, COMMITMENT_BYTES) for c in fields.listed("commitments", MAX_COMMITMENTS)
            ),
        )


def _misfit(why: str) -> VerificationFailed:
    return VerificationFailed("A preference is malformed", why, "give the feedback again")
