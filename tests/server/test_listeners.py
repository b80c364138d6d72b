from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from fedaigc.errors import ProcessFailed, SettingsError
from fedaigc_server.listeners import bind_tcp, bind_unix


def test_a_taken_port_says_who_holds_it_and_what_to_do() -> None:
    with bind_tcp("127.0.0.1", 0, "port") as holder:
        port = holder.getsockname()[1]
        with pytest.raises(ProcessFailed) as refused:
            bind_tcp("127.0.0.1", port, "port")
    assert f"Port {port} is taken" in str(refused.value)
    assert f"process {os.getpid()}" in refused.value.why
    assert "--port" in refused.value.do_next


def test_a_port_that_was_just_freed_can_be_bound_again() -> None:
    with bind_tcp("127.0.0.1", 0, "port") as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            first.accept()[0].close()
    bind_tcp("127.0.0.1", port, "port").close()


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_is_not_ours_is_a_settings_error(host: str) -> None:
    with pytest.raises(SettingsError, match=r"--host"):
        bind_tcp(host, 0, "port")


def test_the_unix_socket_is_for_our_user_alone_and_replaces_an_old_one(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    for _ in range(2):
        bound, path = bind_unix(folder / "server.sock")
        assert path == folder / "server.sock"
        assert path.stat().st_mode & 0o777 == 0o600
        bound.close()


def test_a_path_too_long_for_the_kernel_gets_a_short_private_folder(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120) / "server.sock"
    bound, path = bind_unix(long)
    bound.close()
    assert len(str(path)) < 100
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_uid == os.getuid()
    path.unlink()
    path.parent.rmdir()
