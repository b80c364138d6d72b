"""What can be set on a device: flags over environment over file over defaults, an unknown key is an error.

Every key of `configs/edge.toml` is a field here. A key `serve.port` is the environment variable
`FEDAIGC_EDGE_SERVE_PORT`.
"""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from fedaigc.errors import SettingsError
from fedaigc.settings import load_settings, settings_from
from fedaigc_edge.engine.batching_window import WindowSettings

Drafts = Literal["auto", "always", "never"]

ENVIRONMENT_PREFIX = "FEDAIGC_EDGE_"
CONFIG_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"
MODELS_VARIABLE = "FEDAIGC_MODELS"
"""The model store of this machine, as the `model` commands read it too; FEDAIGC_EDGE_MODELS wins over it."""

DEFAULT_DATA = "~/.fedaigc/edge"
"""Keys, enrolment, evidence and feedback of one device."""
DEFAULT_MODELS = "~/.fedaigc/models"
"""Pulled and exported models; may be shared by several devices of one machine."""
DEFAULT_PORT = 8080
"""Where OpenAI programs find the device."""
DRAIN_S = 20.0
"""Answers that are running at a stop get this long to finish."""
HEARTBEAT_S = 30.0
"""Often enough that a revocation is noticed within a minute, rare enough for a thousand devices a core."""
POLICY_POLL_S = 0.0
"""0 takes the interval that the server gave at enrolment."""
DELIVERY_S = 2.0
"""Fingerprints wait at most about this long for their batch."""
SLOTS = 8
"""Answers written together; on a small core eight are written four times as fast as one after another."""
WAITING = 256
"""Answers that may wait for a slot; the next one is told to come back."""
KV_MIB = 256
"""Memory for the keys and values of all answers together: 5,825 tokens of SmolLM2-135M."""
ADAPTERS_MIB = 64
DRAFTS: tuple[Drafts, ...] = ("auto", "always", "never")
BUDGET_TOKENS = 1_000_000
"""Prompt and answer tokens of one budget window."""
BUDGET_WINDOW_S = 3600.0
MAX_NAME_CHARS = 64
"""The server takes no longer name."""

S = TypeVar("S")


@dataclass(frozen=True)
class ServeSettings:
    """The local API."""

    port: int = DEFAULT_PORT
    """TCP port on 127.0.0.1; 0 takes a free one, which run/api.json names."""
    gate: Path | None = None
    """The gate's YAML rules; without a file everything passes and is recorded as passed."""
    drain_s: float = DRAIN_S
    """Seconds that running answers get at a stop."""
    slots: int = SLOTS
    """Answers written at one time."""
    waiting: int = WAITING
    """Answers that may wait for a slot."""
    threads: int = 0
    """Threads of one computation; 0 takes the number of physical cores."""
    kv_mib: int = KV_MIB
    """Mebibytes for keys and values; prompt and answer of one request must fit them."""
    adapters_mib: int = ADAPTERS_MIB
    """Mebibytes for loaded adapters; the least recently used ones give way."""
    drafts: Drafts = "auto"
    """Whether to draft tokens by prompt lookup; auto leaves out greedy and seeded answers."""
    earlier_versions: int = 2
    """Earlier policy versions that stay loaded and can be asked for by name@version."""

    def __post_init__(self) -> None:
        _check(0 <= self.port <= 65535, "port must be 0 to 65535")
        _check(0 <= self.drain_s <= 600, "drain_s must be 0 to 600 seconds")
        _check(1 <= self.slots <= 256, "slots must be 1 to 256")
        _check(0 <= self.waiting <= 100_000, "waiting must be 0 to 100000")
        _check(0 <= self.threads <= 1024, "threads must be 0 to 1024")
        _check(16 <= self.kv_mib <= 1 << 20, "kv_mib must be 16 to 1048576")
        _check(1 <= self.adapters_mib <= 1 << 20, "adapters_mib must be 1 to 1048576")
        _check(self.drafts in DRAFTS, f"drafts must be one of {', '.join(DRAFTS)}")
        _check(0 <= self.earlier_versions <= 2, "earlier_versions must be 0 to 2")


@dataclass(frozen=True)
class BudgetSettings:
    """How many tokens the device's callers may use together."""

    tokens: int = BUDGET_TOKENS
    window_s: float = BUDGET_WINDOW_S

    def __post_init__(self) -> None:
        _check(self.tokens >= 1, "tokens must be at least 1")
        _check(1 <= self.window_s <= 31 * 86400, "window_s must be 1 second to 31 days")


@dataclass(frozen=True)
class FederationSettings:
    """How often the device speaks to the server."""

    heartbeat_s: float = HEARTBEAT_S
    policy_poll_s: float = POLICY_POLL_S
    delivery_s: float = DELIVERY_S

    def __post_init__(self) -> None:
        _check(1 <= self.heartbeat_s <= 3600, "heartbeat_s must be 1 to 3600 seconds")
        _check(0 <= self.policy_poll_s <= 86400, "policy_poll_s must be 0 to 86400 seconds")
        _check(0.1 <= self.delivery_s <= 3600, "delivery_s must be 0.1 to 3600 seconds")


@dataclass(frozen=True)
class EdgeSettings:
    """Everything that can be set on one device."""

    data: Path = field(default_factory=lambda: Path(DEFAULT_DATA).expanduser())
    models: Path = field(default_factory=lambda: Path(DEFAULT_MODELS).expanduser())
    model: str = "smollm2-135m"
    name: str = ""
    """What the operator's list shows; empty takes the machine's host name."""
    serve: ServeSettings = field(default_factory=ServeSettings)
    batching: WindowSettings = field(default_factory=WindowSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    federation: FederationSettings = field(default_factory=FederationSettings)

    def __post_init__(self) -> None:
        good = len(self.name) <= MAX_NAME_CHARS and self.name.isprintable()
        _check(good, f"name must be printable and have at most {MAX_NAME_CHARS} characters")


def edge_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None = None
) -> EdgeSettings:
    """Lay flags (dotted keys, None meaning not given) over environment over file over defaults.

    Raises SettingsError naming the flag, variable or key that is wrong.
    """
    settings = load_settings(EdgeSettings, config_file(environment, config))
    settings = _laid_over(settings, _environment_table(environment), "the environment")
    return _laid_over(settings, _flags_table(flags), "the command line")


def config_file(environment: Mapping[str, str], config: Path | None = None) -> Path | None:
    """The settings file in use: the one given, else the one that the environment names."""
    return config or (Path(environment[CONFIG_VARIABLE]) if environment.get(CONFIG_VARIABLE) else None)


def _laid_over(settings: S, table: Mapping[str, Any], source: str) -> S:
    checked = settings_from(type(settings), table, source)
    changes = {}
    for key, value in table.items():
        nested = isinstance(value, dict)
        changes[key] = _laid_over(getattr(settings, key), value, source) if nested else getattr(checked, key)
    return dataclasses.replace(typing.cast(Any, settings), **changes) if changes else settings


def _flags_table(flags: Mapping[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in flags.items():
        if value is not None:
            _put(table, key, str(value) if isinstance(value, Path) else value)
    return table


def _environment_table(environment: Mapping[str, str]) -> dict[str, Any]:
    known = {
        ENVIRONMENT_PREFIX + key.replace(".", "_").upper(): (key, hint) for key, hint in _keys(EdgeSettings)
    }
    table: dict[str, Any] = {}
    if environment.get(MODELS_VARIABLE):
        _put(table, "models", environment[MODELS_VARIABLE])
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        if variable not in known:
            raise SettingsError(
                f"Unknown environment variable {variable}",
                f"known ones are {', '.join(sorted(known))}",
                "unset it or correct its spelling",
            )
        key, hint = known[variable]
        _put(table, key, text if _is_text(hint) else _toml_value(text))
    return table


def _keys(kind: type[Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, hint in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            found += _keys(typing.cast(type[Any], hint), f"{prefix}{name}.")
        else:
            found.append((prefix + name, hint))
    return found


def _is_text(hint: Any) -> bool:
    return any(option in (str, Path) for option in (typing.get_args(hint) or (hint,)))


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    *groups, last = key.split(".")
    for group in groups:
        table = table.setdefault(group, {})
    table[last] = value


def _check(good: bool, rule: str) -> None:
    if not good:
        raise ValueError(rule)  # caught by settings_from, which names the file and the table
