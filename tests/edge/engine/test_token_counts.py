from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.engine.token_counts import TokenCounts

IDS = st.lists(st.integers(-2, 40), max_size=300)


@given(IDS, IDS)
def test_it_counts_as_a_counter_does_within_the_vocabulary(first: list[int], then: list[int]) -> None:
    counts = TokenCounts(first, 38)
    for token in then:
        counts.add(token)
    expected = {token: often for token, often in Counter(first + then).items() if 0 <= token < 38}
    assert dict(zip(counts.ids.tolist(), counts.counts.tolist(), strict=True)) == expected
    assert len(set(counts.ids.tolist())) == counts.ids.size


def test_it_grows_past_any_room() -> None:
    counts = TokenCounts((), 100_000)
    for token in range(1_000):
        counts.add(7 * token)
        counts.add(7 * token)
    assert counts.ids.tolist() == [7 * token for token in range(1_000)]
    assert set(counts.counts.tolist()) == {2}
