"""The sizes of a model that an adapter and a graph depend on, read from Hugging Face's config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaigc.adapter import MAX_FEATURES, MAX_LAYER, AdapterShape, AdapterSlot
from fedaigc.canonical import Json
from fedaigc.errors import ModelError, VerificationFailed
from fedaigc.fields import Fields, fields_of
from fedaigc_edge.model.families import read_config

TARGETS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"}
"""What adapters may change: short name -> projection."""
ADAPTED = ("q", "v")
"""Enough for preferences, and on a fused qkv node they cost about 1 % of decoding; o alone costs 5 % more."""

_SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "context", "vocabulary")


@dataclass(frozen=True)
class Architecture:
    """Counts of layers, heads and features; `tied` says that embedding and output share one matrix."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    vocabulary: int
    tied: bool

    def to_json(self) -> dict[str, Json]:
        """The sizes as a JSON object."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, value: Json) -> Architecture:
        """Read `to_json`; raises VerificationFailed."""
        fields = fields_of(value, "architecture")
        fields.only(*_SIZES, "tied")
        return cls(**{name: fields.integer(name, 1) for name in _SIZES}, tied=fields.record["tied"] is True)

    @property
    def projections(self) -> Mapping[str, int]:
        """Output features of q, k and v, in the order in which a fused node concatenates them."""
        kv = self.kv_heads * self.head_dim
        return {"q_proj": self.heads * self.head_dim, "k_proj": kv, "v_proj": kv}

    def features(self, projection: str) -> tuple[int, int]:
        """Input and output features of one of the attention's four projections."""
        if projection == TARGETS["o"]:
            return self.heads * self.head_dim, self.hidden
        return self.hidden, self.projections[projection]

    @property
    def head_layer(self) -> int:
        """Where the reward head reads: two thirds up, layer 20 of 30, where meaning is richest."""
        return max(1, self.layers * 2 // 3)


def architecture_of(hf: Path) -> Architecture:
    """Read the folder's config.json; raises ModelError when a size is missing or absurd."""
    config = read_config(hf)
    try:
        return _architecture(config)
    except VerificationFailed as error:
        raise ModelError(f"The config of {hf} is not usable", str(error), "fetch the model again") from error


def _architecture(config: dict[str, Json]) -> Architecture:
    fields = Fields(config, "config.json")
    hidden = fields.integer("hidden_size", 1, MAX_FEATURES)
    heads = fields.integer("num_attention_heads", 1, 1024)
    derived = {"num_key_value_heads": heads, "head_dim": hidden // heads}
    sizes = Fields({**derived, **{k: v for k, v in config.items() if v is not None}}, "config.json")
    return Architecture(
        layers=fields.integer("num_hidden_layers", 1, MAX_LAYER),
        hidden=hidden,
        heads=heads,
        kv_heads=sizes.integer("num_key_value_heads", 1, heads),
        head_dim=sizes.integer("head_dim", 1, 1024),
        context=fields.integer("max_position_embeddings", 1),
        vocabulary=fields.integer("vocab_size", 1),
        tied=config.get("tie_word_embeddings") is True,
    )


def adapter_shape(
    architecture: Architecture, layers: int, rank: int, alpha: float, targets: Sequence[str] = ADAPTED
) -> AdapterShape:
    """The shape of adapters on `targets` of the last `layers` layers.

    Raises ModelError when there are fewer layers, or no such targets.
    """
    if not 1 <= layers <= architecture.layers:
        raise ModelError(
            f"This model has {architecture.layers} layers", f"{layers} were asked for", "choose fewer"
        )
    if not targets or len(set(targets)) != len(targets) or not set(targets) <= set(TARGETS):
        raise ModelError(
            "Adapters cannot have these targets",
            f"asked for {', '.join(targets) or 'none'}",
            f"name some of {', '.join(TARGETS)}, each once",
        )
    slots = tuple(
        AdapterSlot(layer, projection, *architecture.features(projection))
        for layer in range(architecture.layers - layers, architecture.layers)
        for name, projection in TARGETS.items()
        if name in targets
    )
    try:
        return AdapterShape(rank, float(alpha), slots)
    except VerificationFailed as error:
        raise ModelError("This adapter shape cannot be used", str(error), "choose another rank") from error
