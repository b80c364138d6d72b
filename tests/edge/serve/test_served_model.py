"""A name means the policy in force; a versioned name means that version or nothing."""

from __future__ import annotations

import pytest

from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.serve.request import UnknownModel
from fedaigc_edge.serve.served_model import ServedModel

MODEL = ServedModel("tiny")


RESIDENT = (PolicyVersion(3), PolicyVersion(12), PolicyVersion(0))


@pytest.mark.parametrize(
    ("asked", "version"), [("tiny", None), ("tiny@3", 3), ("tiny@12", 12), ("tiny@0", 0)]
)
def test_the_models_own_names_are_served(asked: str, version: int | None) -> None:
    assert MODEL.pinned(asked, RESIDENT) == version


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "tiny@2",
        "tiny@",
        "Tiny",
        "gpt-4o",
        "tiny@3@3",
        "tiny@03",
        "tiny@-3",
        "tiny@３",
        "@3",
        "tiny@" + "9" * 5000,
    ],
)
def test_every_other_name_is_unknown_and_not_repeated(asked: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        MODEL.pinned(asked, RESIDENT)
    assert caught.value.field == "model"
    assert "gpt-4o" not in str(caught.value)


def test_a_name_may_hold_the_mark_itself() -> None:
    assert ServedModel("a@b").pinned("a@b@3", RESIDENT) == 3
    assert ServedModel("a@3").pinned("a@3", RESIDENT) is None


def test_answers_carry_the_versioned_name() -> None:
    assert MODEL.versioned(PolicyVersion(3)) == "tiny@3"
