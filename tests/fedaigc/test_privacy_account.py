"""The account composes as independent libraries do, never below them, and refuses what does not fit."""

from __future__ import annotations

import doctest
import itertools
import math

import pytest

from fedaigc import privacy_account
from fedaigc.errors import PrivacyBudgetExceeded, VerificationFailed
from fedaigc.privacy_account import DELTA, EPSILON_LIMIT, Mechanism, check_room, epsilon, least_epsilon


def _library_epsilon(mechanisms: list[Mechanism], delta: float) -> float:
    """dp-accounting asked directly, without our merging."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    account = PLDAccountant()
    for m in mechanisms:
        gaussian = GaussianDpEvent(m.noise_multiplier)
        event = gaussian if m.sample_rate == 1.0 else PoissonSampledDpEvent(m.sample_rate, gaussian)
        account.compose(event, m.steps)
    return float(account.get_epsilon(delta))


@pytest.mark.parametrize(
    ("noise", "steps", "delta"),
    list(itertools.product([2.0, 4.5, 9.0, 20.0], [1, 2, 5, 20], [1e-4, 1e-5, 1e-6])),
)
def test_epsilon_is_that_of_dp_accounting_within_one_per_cent_and_not_below_the_exact_value(
    noise: float, steps: int, delta: float
) -> None:
    mechanisms = [Mechanism(noise, 1.0, steps)]
    ours = epsilon(mechanisms, delta)
    assert ours == pytest.approx(_library_epsilon(mechanisms, delta), rel=0.01)
    assert ours >= least_epsilon(mechanisms, delta) * (1 - 1e-9)


def test_mixed_mechanisms_compose_as_the_library_composes_them() -> None:
    mechanisms = [
        Mechanism(9.0, 1.0, 3),
        Mechanism(6.0, 1.0, 1),
        Mechanism(3.0, 0.2, 10),
        Mechanism(9.0, 1.0, 2),
    ]
    assert epsilon(mechanisms) == pytest.approx(_library_epsilon(mechanisms, DELTA), rel=0.01)


@pytest.mark.parametrize(("steps", "noise"), [(1, 2.01), (5, 4.49), (10, 6.35), (20, 8.98), (30, 11.02)])
def test_the_reference_s_full_batch_settings_cost_about_epsilon_two(steps: int, noise: float) -> None:
    assert epsilon([Mechanism(noise, 1.0, steps)]) == pytest.approx(2.0, abs=0.03)


def test_ten_default_rounds_fit_the_limit_and_eleven_do_not() -> None:
    one_round = [Mechanism(9.0, 1.0, 1), Mechanism(9.0, 1.0, 1)]
    assert check_room(one_round * 9, one_round) == pytest.approx(1.979, abs=0.001)
    with pytest.raises(PrivacyBudgetExceeded, match="privacy limit"):
        check_room(one_round * 10, one_round)
    assert EPSILON_LIMIT == 2.0


def test_the_exact_gaussian_value_is_that_of_its_published_formula() -> None:
    from scipy.stats import norm

    for noise in (0.5, 2.0, 9.0):
        value = least_epsilon([Mechanism(noise, 1.0, 1)], 1e-5)
        delta = norm.cdf(0.5 / noise - value * noise) - math.exp(value) * norm.cdf(
            -0.5 / noise - value * noise
        )
        assert delta == pytest.approx(1e-5, rel=1e-6)


def test_nothing_costs_nothing_and_order_does_not_matter() -> None:
    assert epsilon([]) == least_epsilon([]) == 0.0
    one, two = Mechanism(9.0, 1.0, 1), Mechanism(5.0, 1.0, 2)
    assert epsilon([one, two]) == epsilon([two, one])


@pytest.mark.parametrize(
    ("noise", "rate", "steps"), [(0.0, 1.0, 1), (-1.0, 1.0, 1), (1.0, 0.0, 1), (1.0, 1.1, 1), (1.0, 1.0, 0)]
)
def test_a_mechanism_without_noise_or_out_of_range_does_not_exist(
    noise: float, rate: float, steps: int
) -> None:
    with pytest.raises(VerificationFailed):
        Mechanism(noise, rate, steps)
    with pytest.raises(VerificationFailed):
        Mechanism.from_json({"noise_multiplier": noise, "sample_rate": rate, "steps": steps})


def test_the_numbers_in_the_documentation_are_true() -> None:
    assert doctest.testmod(privacy_account).failed == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize(("noise", "steps"), [(9.0, 2), (9.0, 20), (4.5, 5), (2.01, 1)])
def test_opacus_prv_accountant_agrees_within_one_per_cent(noise: float, steps: int) -> None:
    from opacus.accountants import PRVAccountant

    account = PRVAccountant()
    account.history = [(noise, 1.0, steps)]
    theirs = account.get_epsilon(DELTA, eps_error=0.001)
    assert epsilon([Mechanism(noise, 1.0, steps)]) == pytest.approx(theirs, rel=0.01)
