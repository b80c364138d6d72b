from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.pareto import Variant, dominates, front

FIGURE = st.integers(1, 4).map(float)
VARIANT = st.builds(Variant, name=st.just("x"), size_mb=FIGURE, decode=FIGURE, perplexity=FIGURE)
VARIANTS = st.lists(VARIANT, max_size=8)


@given(VARIANT)
def test_nothing_dominates_itself(one: Variant) -> None:
    assert not dominates(one, one)


@given(VARIANT, VARIANT)
def test_two_never_dominate_each_other(one: Variant, other: Variant) -> None:
    assert not (dominates(one, other) and dominates(other, one))


@given(VARIANT, VARIANT, VARIANT)
def test_dominance_carries_over(one: Variant, other: Variant, third: Variant) -> None:
    if dominates(one, other) and dominates(other, third):
        assert dominates(one, third)


@given(VARIANTS)
def test_whatever_is_not_in_the_front_is_dominated_by_something_in_it(variants: list[Variant]) -> None:
    kept = front(variants)
    for one in variants:
        assert one in kept or any(dominates(better, one) for better in kept)


@given(VARIANTS)
def test_nothing_in_the_front_dominates_anything_in_it(variants: list[Variant]) -> None:
    kept = front(variants)
    assert not any(dominates(one, other) for one in kept for other in kept)


@given(VARIANTS)
def test_the_front_of_the_front_is_the_front_and_is_never_empty(variants: list[Variant]) -> None:
    kept = front(variants)
    assert front(kept) == kept
    assert bool(kept) == bool(variants)


def test_smaller_faster_and_surer_is_better() -> None:
    worse = Variant("worse", 100, 1.0, 13.0)
    for better in (Variant("a", 99, 1.0, 13.0), Variant("b", 100, 1.1, 13.0), Variant("c", 100, 1.0, 12.9)):
        assert dominates(better, worse)
        assert front([worse, better]) == [better]
