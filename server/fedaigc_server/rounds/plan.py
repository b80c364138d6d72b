"""Choose the cohort of a round from what the nodes say of themselves, and sign the plan that they get."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedaigc.adapter import MAX_FEATURES, MAX_LAYER, AdapterShape
from fedaigc.canonical import Json
from fedaigc.errors import RoundFailed, VerificationFailed
from fedaigc.fields import Fields, fields_of
from fedaigc.identifiers import NodeId, PolicyVersion, RoundId, node_id
from fedaigc.manifest import PolicyManifest
from fedaigc.round_plan import RoundPlan
from fedaigc.signing import SigningKey
from fedaigc_server.rounds.learning_settings import LearningSettings

MAX_REASONS = 10
"""Left-out nodes that an error names; the rest is only counted."""


@dataclass(frozen=True)
class NodeStatus:
    """A node's answer to `query.status`.

    Args:
        pairs_new: judged pairs that a round could use, told in powers of two.
        epsilon_spent, epsilon_left: its privacy account.
        policy: the version in force on it.
    """

    node: NodeId
    base_model: str
    shape: AdapterShape
    head_layer: int
    head_dim: int
    pairs_new: int
    epsilon_spent: float
    epsilon_left: float
    policy: PolicyVersion

    @classmethod
    def from_json(cls, value: Json) -> NodeStatus:
        """Read a node's answer; raises VerificationFailed."""
        fields = fields_of(value, "node status")
        fields.only(*cls.__dataclass_fields__)
        return cls(
            node=node_id(fields.text("node")),
            base_model=fields.hexadecimal("base_model"),
            shape=AdapterShape.from_json(fields.record["shape"]),
            head_layer=fields.integer("head_layer", 0, MAX_LAYER),
            head_dim=fields.integer("head_dim", 1, MAX_FEATURES),
            pairs_new=fields.integer("pairs_new"),
            epsilon_spent=_decimal(fields, "epsilon_spent"),
            epsilon_left=_decimal(fields, "epsilon_left"),
            policy=PolicyVersion(fields.integer("policy")),
        )

    @property
    def model(self) -> tuple[str, AdapterShape, int, int]:
        """What must be equal for updates to be averaged."""
        return (self.base_model, self.shape, self.head_layer, self.head_dim)


@dataclass(frozen=True)
class Cohort:
    """Who is invited, in order, and why the others are not."""

    invited: tuple[NodeStatus, ...]
    left_out: Mapping[NodeId, str]


def choose_cohort(
    parent: PolicyManifest | None, statuses: Sequence[NodeStatus], settings: LearningSettings
) -> Cohort:
    """The largest group of able nodes that serve one model; ties go to the smaller model hash."""
    left_out: dict[NodeId, str] = {}
    groups: defaultdict[tuple[str, AdapterShape, int, int], list[NodeStatus]] = defaultdict(list)
    for status in sorted({status.node: status for status in statuses}.values(), key=lambda s: s.node):
        reason = _unable(status, parent, settings)
        if reason:
            left_out[status.node] = reason
        else:
            groups[status.model].append(status)
    if not groups:
        return Cohort((), left_out)
    chosen = min(groups, key=lambda model: (-len(groups[model]), model[0], repr(model[1:])))
    for model, others in groups.items():
        if model != chosen:
            left_out |= {status.node: "most nodes serve another model or adapter shape" for status in others}
    return Cohort(tuple(groups[chosen]), left_out)


def plan_round(
    round_id: RoundId,
    parent: PolicyManifest | None,
    statuses: Sequence[NodeStatus],
    settings: LearningSettings,
    release_key: SigningKey,
    now: int,
    deadline: int,
) -> tuple[bytes, tuple[NodeId, ...]]:
    """The signed plan and the invited nodes; `now` and `deadline` are Unix seconds.

    Raises RoundFailed when no node can take part; it says why for each.
    """
    cohort = choose_cohort(parent, statuses, settings)
    if not cohort.invited or deadline <= now:
        reasons = [f"{node}: {reason}" for node, reason in sorted(cohort.left_out.items())]
        raise RoundFailed(
            "No node can take part in the round" if deadline > now else "The round's time is over",
            "; ".join(reasons[:MAX_REASONS]) or "no node answered",
            "wait for devices, feedback or the newest policy, then run another round",
        )
    base_model, shape, head_layer, head_dim = cohort.invited[0].model
    plan = RoundPlan(
        round=round_id,
        parent=parent.version if parent else PolicyVersion(0),
        base_model=base_model,
        shape=shape,
        head_layer=head_layer,
        head_dim=head_dim,
        head=settings.head,
        lora=settings.lora,
        min_pairs=settings.min_pairs,
        expected_pairs=settings.expected_pairs,
        deadline=deadline,
    )
    return plan.signed(release_key), tuple(status.node for status in cohort.invited)


def _unable(status: NodeStatus, parent: PolicyManifest | None, settings: LearningSettings) -> str:
    wanted = parent.version if parent else 0
    if parent and status.base_model != parent.base_model:
        return "it serves another base model than the policy's"
    if status.policy != wanted:
        return f"it has policy {status.policy}, the newest is {wanted}"
    if status.pairs_new < settings.min_pairs:
        return f"it has fewer than {settings.min_pairs} judged pairs"
    if status.epsilon_left <= 0.0:
        return "its privacy account is used up"
    return ""


def _decimal(fields: Fields, name: str) -> float:
    try:
        value = float(fields.text(name, 32))
    except ValueError:
        value = float("nan")
    if not 0.0 <= value <= 1e6:
        raise VerificationFailed(
            f"{fields.kind}: {name} is wrong", "it must be a decimal number", "update the node"
        )
    return value
