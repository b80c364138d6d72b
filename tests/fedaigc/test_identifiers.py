from __future__ import annotations

import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.identifiers import new_node_id, new_request_id, new_round_id, node_id, round_id


def test_fresh_names_pass_their_own_check_and_differ() -> None:
    assert node_id(new_node_id()) != new_node_id()
    assert round_id(new_round_id()) != new_round_id()
    assert new_request_id() != new_request_id()


@pytest.mark.parametrize(
    "text", ["", "n-", "n-0123456789abcdeg", "r-0123456789abcdef", "n-0123456789abcdef\n"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(VerificationFailed):
        node_id(text)


def test_a_refusal_points_to_the_list_of_its_own_kind() -> None:
    with pytest.raises(VerificationFailed, match=r"Not a node id.*fedaigc-server node list"):
        node_id("x")
    with pytest.raises(VerificationFailed, match=r"Not a round id.*fedaigc-server round list"):
        round_id("x")
