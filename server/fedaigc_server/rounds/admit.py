"""Accept or refuse an update: nothing that a node claims is used before it was checked here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedaigc.errors import UpdateRefused, VerificationFailed
from fedaigc.identifiers import NodeId
from fedaigc.privacy_account import DELTA, EPSILON_LIMIT, Mechanism, least_epsilon
from fedaigc.round_plan import MAX_DEVICE_PAIRS, RoundPlan
from fedaigc.signing import PublicKey
from fedaigc.update import NodeUpdate

HEADER_ALLOWANCE = 512 << 10
"""Bytes that names, header and signature may take beside the numbers."""

NORM_TOLERANCE = 1e-4
EPSILON_TOLERANCE = 1e-6


def admit(
    data: bytes,
    plan: RoundPlan,
    node_key: PublicKey,
    node: NodeId,
    spent_before: float = 0.0,
    admitted_before: Sequence[Mechanism] = (),
) -> NodeUpdate:
    """The update in `data`, if it may be counted in the round of `plan`; otherwise UpdateRefused, saying why.

    Args:
        node_key, node: whose update it must be, from the registry.
        spent_before: the largest epsilon that this node ever reported; an account never goes back.
        admitted_before: the mechanisms of all its updates that were ever admitted: what they cost together no
            account can be below, whatever the device has forgotten.
    """
    numbers = plan.shape.trained_parameters + plan.head_dim
    if len(data) > 4 * numbers + HEADER_ALLOWANCE:
        raise _refused("it is larger than its arrays can be", "send the update of this round")
    try:
        update = NodeUpdate.open(data, node_key)
    except VerificationFailed as error:
        raise _refused(f"{error.what}: {error.why}", error.do_next) from None
    _check_belongs(update, plan, node)
    _check_spend(update, plan, spent_before, admitted_before)
    _check_arrays(update, plan)
    return update


def _check_belongs(update: NodeUpdate, plan: RoundPlan, node: NodeId) -> None:
    for name, found, wanted in (
        ("node", update.node, node),
        ("round", update.round, plan.round),
        ("parent version", update.parent, plan.parent),
        ("base model", update.base_model, plan.base_model),
        ("adapter shape", update.adapter_delta.shape, plan.shape),
    ):
        if found != wanted:
            raise _refused(f"its {name} is not the plan's", "train from the plan that was sent")


def _check_spend(
    update: NodeUpdate, plan: RoundPlan, spent_before: float, admitted_before: Sequence[Mechanism]
) -> None:
    if update.mechanisms != plan.mechanisms or update.delta != DELTA:
        raise _refused("it did not run the mechanisms of the plan", "train with the plan's noise and steps")
    if update.epsilon_spent > EPSILON_LIMIT:
        raise _refused(
            f"its privacy account passed epsilon {EPSILON_LIMIT:g}", "this node must stop training"
        )
    least = max(spent_before, least_epsilon([*admitted_before, *update.mechanisms]))
    if update.epsilon_spent < least - EPSILON_TOLERANCE:
        raise _refused(
            f"its privacy account is lower than it can be: {update.epsilon_spent:.3f}, at least {least:.3f}",
            "the node lost its account: on it, run fedaigc-edge leave --erase and join with a new token",
        )


def _check_arrays(update: NodeUpdate, plan: RoundPlan) -> None:
    """Bounds from the plan's public numbers; honest noise passes them about once in 10**8 updates."""
    if update.head_delta.size != plan.head_dim:
        raise _refused("its reward head has another size than the plan's", "export the model again")
    if not all(np.any(b) for b in update.adapter_delta.b.values()) or not np.any(update.head_delta):
        raise _refused("a part of it did not move", "its training is dead: update the node's packages")
    norm = update.adapter_delta.norm
    if not update.moved > 0.0 or abs(update.moved - norm) > NORM_TOLERANCE * norm:
        raise _refused("it claims another length than its arrays have", "send the update of this round")
    expected = plan.expected_pairs
    longest = plan.lora.longest(MAX_DEVICE_PAIRS, plan.shape.trained_parameters, expected)
    longest_head = plan.head.longest(MAX_DEVICE_PAIRS, plan.head_dim, expected)
    head_norm = float(np.linalg.norm(update.head_delta.astype(np.float64)))
    if norm > longest or head_norm > longest_head:
        raise _refused("it is longer than clipping and noise can make it", "train with the plan's clip norm")


def _refused(why: str, do_next: str) -> UpdateRefused:
    return UpdateRefused("The update is not counted", why, do_next)
