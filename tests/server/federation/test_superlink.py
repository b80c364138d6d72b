from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fedaigc.errors import ProcessFailed
from fedaigc_server.certificates import CertificateFiles
from fedaigc_server.federation.superlink import FlowerFolders, script, superexec_spec, superlink_spec


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return CertificateFiles(tmp_path / "ca.crt", tmp_path / "tls.crt", tmp_path / "tls.key", "00")


def test_superlink_is_on_loopback_authenticated_isolated_and_installs_nothing(
    tmp_path: Path, files: CertificateFiles
) -> None:
    spec = superlink_spec(FlowerFolders(tmp_path), 4711, files, tmp_path / "secret")
    text = " ".join(spec.arguments)
    assert "--host 127.0.0.1 --port 4711" in text
    assert "--isolation process" in text
    assert f"--superexec-auth-secret-file {tmp_path / 'secret'}" in text
    assert f"--database {tmp_path / 'flower' / 'superlink.db'}" in text
    for flag in ("--enable-supernode-auth", "--disable-runtime-dependency-installation", "--ssl-certfile"):
        assert flag in spec.arguments
    assert "--insecure" not in spec.arguments


@pytest.mark.parametrize("make", [superlink_spec, superexec_spec])
def test_no_process_of_flower_phones_home_or_shares_a_home(
    tmp_path: Path, files: CertificateFiles, make: object
) -> None:
    spec = make(FlowerFolders(tmp_path), 4711, files, tmp_path / "secret")  # type: ignore[operator]
    assert spec.environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert spec.environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert spec.environment["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert Path(spec.environment["FLWR_HOME"]).is_relative_to(tmp_path)
    assert spec.owner == tmp_path


def test_superexec_can_start_nothing_but_our_server_app(tmp_path: Path, files: CertificateFiles) -> None:
    spec = superexec_spec(FlowerFolders(tmp_path), 4711, files, tmp_path / "secret")
    (program,) = Path(spec.environment["PATH"]).iterdir()
    assert program.name == "flwr-serverapp"
    assert "fedaigc_server.federation.server_app" in program.read_text()


def test_each_role_has_a_home_of_its_own(tmp_path: Path) -> None:
    folders = FlowerFolders(tmp_path)
    homes = {folders.environment(role)["FLWR_HOME"] for role in ("superlink", "superexec")}
    assert len(homes) == 2


def test_a_missing_script_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ProcessFailed, match=r"not installed.*fedaigc\[server\]"):
        script("flower-superlink")
