"""A name means the policy in force; a versioned name means that version or nothing."""

from __future__ import annotations

import pytest

from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.serve.request import UnknownModel
from fedaigc_edge.serve.served_model import ServedModel

MODEL = ServedModel("tiny")


@pytest.mark.parametrize("asked", ["tiny", "tiny@3"])
def test_the_models_own_names_are_served(asked: str) -> None:
    MODEL.check(asked, PolicyVersion(3))


@pytest.mark.parametrize("asked", ["", "tiny@2", "tiny@4", "tiny@", "Tiny", "gpt-4o", "tiny@3@3"])
def test_every_other_name_is_unknown_and_not_repeated(asked: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        MODEL.check(asked, PolicyVersion(3))
    assert caught.value.field == "model"
    assert "gpt-4o" not in str(caught.value)


def test_answers_carry_the_versioned_name() -> None:
    assert MODEL.versioned(PolicyVersion(3)) == "tiny@3"
