"""A step cannot be skipped."""

from __future__ import annotations

import pytest

from fedaigc.errors import VerificationFailed
from fedaigc_edge.step import Maker, made_only_by


def test_only_the_steps_own_maker_is_accepted() -> None:
    own = Maker()
    made_only_by(own, own, "this step")
    with pytest.raises(VerificationFailed, match="this step only"):
        made_only_by(Maker(), own, "this step")
