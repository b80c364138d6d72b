from __future__ import annotations

import pytest

from fedaigc_edge.engine.sampling import Grammar, Sampling


@pytest.mark.parametrize(
    ("sampling", "repeatable"),
    [
        (Sampling(1, temperature=0), True),
        (Sampling(1, temperature=1.0, seed=0), True),
        (Sampling(1, temperature=0.01), False),
    ],
)
def test_greedy_and_seeded_answers_must_repeat(sampling: Sampling, repeatable: bool) -> None:
    assert sampling.repeatable is repeatable


def test_a_grammar_never_shows_its_text() -> None:
    assert "secret" not in repr(Grammar("regex", "secret"))
