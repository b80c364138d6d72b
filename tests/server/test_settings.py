from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest

from fedaigc.errors import SettingsError
from fedaigc.settings import load_settings
from fedaigc_server.rounds.learning_settings import LearningSettings
from fedaigc_server.settings import ServerSettings

EXAMPLE = Path(__file__).parents[2] / "configs" / "server.toml"


def test_the_example_file_names_every_key_with_its_default() -> None:
    table = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert set(table) == {field.name for field in dataclasses.fields(ServerSettings)}
    assert set(table["learning"]) == {field.name for field in dataclasses.fields(LearningSettings)}
    loaded = load_settings(ServerSettings, EXAMPLE)
    expanded = {name: getattr(loaded, name).expanduser() for name in ("data", "officer")}
    assert dataclasses.replace(loaded, **expanded) == ServerSettings()


def test_every_key_of_the_example_has_a_comment() -> None:
    previous = ""
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            assert previous.startswith("#"), line
        previous = line


@pytest.mark.parametrize("text", ["port = 70000", "poll_s = 0", "colour = 1", "connections = 1", "host = 5"])
def test_a_wrong_value_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"server\.toml"):
        load_settings(ServerSettings, path)


def test_tokens_name_the_first_public_name_else_what_we_bind() -> None:
    assert ServerSettings(public_names=("dc.example.org", "b")).token_host() == "dc.example.org"
    assert ServerSettings(host="192.0.2.7").token_host() == "192.0.2.7"
    assert ServerSettings().token_host() not in ("", "0.0.0.0")  # noqa: S104


def test_the_certificate_names_what_tokens_say() -> None:
    for settings in (ServerSettings(public_names=("dc.example.org",)), ServerSettings(host="192.0.2.7")):
        assert settings.token_host() in settings.names()


@pytest.mark.parametrize(
    "name",
    [
        *("", "https://dc.example.org", "dc.example.org:8443", "*.example.org", "a b", "-a", "a..b"),
        *("256.1.1.1", "::", "\u540d.example", "a" * 64, "x." * 127 + "yz", "dc.example.org\n"),
    ],
)
def test_a_public_name_that_no_device_could_reach_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no host name or IP address"):
        ServerSettings(public_names=(name,))


@pytest.mark.parametrize("name", ["dc.example.org", "DC1", "192.0.2.7", "2001:db8::1", "xn--fiqs8s.example"])
def test_host_names_and_addresses_are_public_names(name: str) -> None:
    assert ServerSettings(public_names=(name,)).token_host() == name


def test_an_ipv6_address_is_bracketed_before_its_port() -> None:
    assert ServerSettings(public_names=("2001:db8::1",)).token_address(8443) == "[2001:db8::1]:8443"
    assert ServerSettings(public_names=("dc",)).token_address(8443) == "dc:8443"
