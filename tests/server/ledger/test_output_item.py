from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc.signing import b64
from fedaigc_server.ledger.output_item import MAX_OPENING_BYTES, OutputItem
from tests.server.ledger.outputs import NODE, OTHER_NODE, item, output_entry, plain_entries, tag_of

GOOD: dict[str, Any] = {
    "seq": 1,
    "entry": b64(output_entry(1)),
    "tags": [b64(tag_of(1))],
    "month": "2026-12",
    "opening": b64(b"sealed 1"),
}


def test_a_delivery_is_read_as_it_was_sent() -> None:
    assert OutputItem.from_json(GOOD) == item(1)
    OutputItem.from_json(GOOD).check(NODE)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq", -1),
        ("seq", True),
        ("seq", "1"),
        ("seq", 2**53),
        ("entry", None),
        ("entry", "?"),
        ("entry", ""),
        ("entry", "A" * 100_000),
        ("tags", "AAAA"),
        ("tags", [b64(bytes(15))]),
        ("tags", [b64(bytes(17))]),
        ("tags", [3]),
        ("tags", [b64(bytes(16))] * 5),
        ("month", "2026-13"),
        ("month", "2026-1"),
        ("month", "2026-12\n"),
        ("month", 202612),
        ("opening", ""),
        ("opening", b64(bytes(MAX_OPENING_BYTES + 1))),
        ("more", 1),
    ],
)
def test_a_malformed_delivery_names_its_field_and_quotes_nothing(field: str, value: Any) -> None:
    with pytest.raises(RequestInvalid) as caught:
        OutputItem.from_json({**GOOD, field: value})
    assert caught.value.field == ("item" if field == "more" else field)
    assert "AAAA" not in str(caught.value)


@pytest.mark.parametrize("value", [None, [], "item", {}, {"seq": 1}])
def test_something_that_is_no_delivery_is_refused(value: Any) -> None:
    with pytest.raises(RequestInvalid):
        OutputItem.from_json(value)


def test_only_the_nodes_own_output_under_its_own_number_passes() -> None:
    for wrong in (
        item(1, OTHER_NODE),
        replace(item(2), seq=1),
        OutputItem(0, plain_entries(1)[0], (), "2026-12", b"x"),
        OutputItem(0, b"{}", (), "2026-12", b"x"),
    ):
        with pytest.raises(RequestInvalid):
            wrong.check(NODE)
