"""Steps that cannot be skipped: each value of the pipeline can only be made by the step before it.

A step's module holds one private `Maker`; its value asks for that maker as a field of its constructor. To
leave a step out is then a type error, and at run time VerificationFailed.
"""

from __future__ import annotations

from fedaigc.errors import VerificationFailed


class Maker:
    """What a step holds to make its value; each step derives its own private class."""


def made_only_by(given: Maker, own: Maker, step: str) -> None:
    """Raise VerificationFailed unless `given` is the maker of the step that `step` names."""
    if given is not own:
        raise VerificationFailed(
            "A step of the pipeline was skipped", f"this value is made by {step} only", "call that step"
        )
