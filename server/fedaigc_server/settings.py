"""The server's settings: defaults, the TOML file over them, the command line over that."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

from fedaigc_server.rounds.learning_settings import LearningSettings

DEFAULT_DATA = Path("~/.fedaigc/server").expanduser()
DEFAULT_OFFICER = Path("~/.fedaigc/officer").expanduser()
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
    """DNS names or IP addresses by which devices reach the server; the first is written into tokens."""
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

    def names(self) -> tuple[str, ...]:
        """The names that the TLS certificate must carry besides the loopback ones."""
        bound = () if self.host in (ALL_ADDRESSES, "::") else (self.host,)
        return tuple(dict.fromkeys((*self.public_names, *bound, *_own_name())))

    def token_host(self) -> str:
        """The host that tokens tell devices to reach."""
        if self.public_names:
            return self.public_names[0]
        if self.host not in (ALL_ADDRESSES, "::"):
            return self.host
        return next(iter(_own_name()), "localhost")


def _own_name() -> tuple[str, ...]:
    name = socket.gethostname().lower()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return ()
    return (name,)
