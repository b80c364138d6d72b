"""The server's settings: defaults, the TOML file over them, the command line over that."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path

from fedaigc_server.rounds.learning_settings import LearningSettings

DEFAULT_DATA = Path("~/.fedaigc/server").expanduser()
DEFAULT_OFFICER = Path("~/.fedaigc/officer").expanduser()
MAX_NAME_CHARS = 253
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE | re.ASCII)
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 (devices come from elsewhere; this port is the guarded one)


@dataclass(frozen=True)
class ServerSettings:
    """Every key of `configs/server.toml`; an unknown key there is an error."""

    data: Path = DEFAULT_DATA
    """The data folder: keys, databases, blobs, Flower's state, logs."""
    officer: Path = DEFAULT_OFFICER
    """The officer's folder, made by the first start; keep it on another machine once the server runs."""
    host: str = ALL_ADDRESSES
    """The address that the public TLS port binds to."""
    port: int = 8443
    """The public TLS port; 0 takes a free one."""
    admin_port: int = 8444
    """The admin port, on loopback only; 0 takes a free one."""
    public_names: tuple[str, ...] = ()
    """DNS names or IP addresses by which devices reach the server; the first is written into tokens.

    A start without any takes those of the last start."""
    poll_s: int = 15
    """Seconds between two heartbeats of a device."""
    enrol_per_minute: int = 20
    """Enrolment attempts that one address may sustain."""
    round_attempts: int = 5
    """Flower runs that one round may use before it is closed."""
    connections: int = 2000
    """Open connections on the public port beyond which new requests get 503."""
    learning: LearningSettings = field(default_factory=LearningSettings)
    """What rounds ask of the devices."""

    def __post_init__(self) -> None:
        for name in ("port", "admin_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise ValueError(f"{name} must be from 0 to 65535")
        for name in ("poll_s", "enrol_per_minute", "round_attempts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.connections < 10:
            raise ValueError("connections must be at least 10")
        for name in self.public_names:
            if not _reachable_name(name):
                raise ValueError(
                    f"public name {name!r} is no host name or IP address: give it without https:// and port,"
                    " such as dc.example.org"
                )

    def names(self) -> tuple[str, ...]:
        """The names that the TLS certificate must carry besides the loopback ones."""
        bound = () if self.host in (ALL_ADDRESSES, "::") else (self.host,)
        return tuple(dict.fromkeys((*self.public_names, *bound, *_own_name())))

    def token_address(self, port: int) -> str:
        """The `host:port` that tokens tell devices to reach."""
        host = self.token_host()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def token_host(self) -> str:
        """The host that tokens tell devices to reach."""
        if self.public_names:
            return self.public_names[0]
        if self.host not in (ALL_ADDRESSES, "::"):
            return self.host
        return next(iter(_own_name()), "localhost")


def _reachable_name(name: str) -> bool:
    try:
        return not ipaddress.ip_address(name).is_unspecified
    except ValueError:
        labels = name.split(".")
    # A last label of digits would be a mistyped IPv4 address, which no host can have (RFC 1123, 2.1).
    fits = len(name) <= MAX_NAME_CHARS and not labels[-1].isdigit()
    return fits and all(_LABEL.fullmatch(label) for label in labels)


def _own_name() -> tuple[str, ...]:
    name = socket.gethostname().lower()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return ()
    return (name,)
