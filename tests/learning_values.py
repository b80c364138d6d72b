"""Small, valid learning values for the tests: a shape, a plan, pairs, an update."""

from __future__ import annotations

import numpy as np

from fedaigc.adapter import Adapter, AdapterShape, AdapterSlot
from fedaigc.arrays import FloatArray
from fedaigc.identifiers import NodeId, PolicyVersion, RoundId
from fedaigc.preference import Preference, Turn
from fedaigc.privacy_account import DELTA, least_epsilon
from fedaigc.round_plan import RoundPlan, StepPlan
from fedaigc.update import NodeUpdate

BASE_MODEL = "5a" * 32
ROUND = RoundId("r-00112233aabbccdd")
NODE = NodeId("n-8899aabbccddeeff")
SHAPE = AdapterShape(
    4,
    8.0,
    tuple(
        AdapterSlot(layer, name, 64, size)
        for layer in (0, 1)
        for name, size in (("q_proj", 64), ("v_proj", 32))
    ),
)
HEAD_DIM = 64


def a_plan(
    round_id: RoundId = ROUND,
    parent: int = 0,
    base_model: str = BASE_MODEL,
    shape: AdapterShape = SHAPE,
    min_pairs: int = 2,
    expected_pairs: int = 8,
    deadline: int = 4_000_000_000,
    noise: float = 9.0,
    head_layer: int = 1,
) -> RoundPlan:
    """A plan for the tiny shape."""
    return RoundPlan(
        round=round_id,
        parent=PolicyVersion(parent),
        base_model=base_model,
        shape=shape,
        head_layer=head_layer,
        head_dim=HEAD_DIM,
        head=StepPlan(0.5, noise, 1, 1.0),
        lora=StepPlan(0.3, noise, 1, 2.0),
        min_pairs=min_pairs,
        expected_pairs=expected_pairs,
        deadline=deadline,
    )


def an_adapter(seed: int, length: float = 2.0, shape: AdapterShape = SHAPE) -> Adapter:
    """A random adapter whose B has the given L2 norm."""
    draw = np.random.default_rng(seed)
    b = {slot.name: draw.standard_normal((slot.out_features, shape.rank)) for slot in shape.slots}
    norm = np.sqrt(sum(np.square(array).sum() for array in b.values()))
    return Adapter(
        shape, BASE_MODEL, {name: (array * length / norm).astype(np.float32) for name, array in b.items()}
    )


def a_head(seed: int, length: float = 1.0) -> FloatArray:
    """Random head weights of the given norm, (HEAD_DIM,)."""
    weights = np.random.default_rng(seed).standard_normal(HEAD_DIM)
    scaled: FloatArray = (weights * length / np.linalg.norm(weights)).astype(np.float32)
    return scaled


def an_update(
    plan: RoundPlan, seed: int = 1, node: NodeId = NODE, epsilon: float | None = None
) -> NodeUpdate:
    """What an honest node would answer to `plan`, with random arrays of honest length."""
    delta = an_adapter(seed)
    return NodeUpdate(
        round=plan.round,
        node=node,
        parent=plan.parent,
        base_model=plan.base_model,
        adapter_delta=delta,
        head_delta=a_head(seed),
        mechanisms=plan.mechanisms,
        epsilon_spent=least_epsilon(plan.mechanisms) + 1e-4 if epsilon is None else epsilon,
        delta=DELTA,
        fingerprint_root=bytes(32),
        moved=delta.norm,
    )


def some_pairs(count: int) -> list[Preference]:
    """Distinct pairs with a clear preference."""
    return [
        Preference(
            id=f"pair-{number}",
            prompt=(Turn("user", f"question number {number} about the quick fox"),),
            chosen=f"a policy is an adapter, answer {number}",
            rejected=f"lazy dog {number}",
            source="pair",
        )
        for number in range(count)
    ]
