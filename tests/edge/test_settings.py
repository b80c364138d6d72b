"""Settings: flags over environment over file over defaults; unknown keys are errors."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fedaigc.errors import SettingsError
from fedaigc_edge.settings import EdgeSettings, edge_settings

REPOSITORY = Path(__file__).parents[2]


def test_without_anything_the_defaults_hold() -> None:
    settings = edge_settings({}, {})
    assert settings == EdgeSettings()
    assert settings.serve.port == 8080
    assert settings.data == Path("~/.fedaigc/edge").expanduser()


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_text('model = "from-file"\nname = "from-file"\n[serve]\nport = 1001\ndrain_s = 5\n')
    environment = {"FEDAIGC_EDGE_NAME": "from-env", "FEDAIGC_EDGE_SERVE_PORT": "1002", "HOME": "/x"}
    settings = edge_settings({"serve.port": 1003, "data": None}, environment, file)
    assert (settings.model, settings.name, settings.serve.port) == ("from-file", "from-env", 1003)
    assert settings.serve.drain_s == 5.0
    assert edge_settings({}, environment, file).serve.port == 1002
    assert edge_settings({}, {}, file).serve.port == 1001


def test_the_file_can_be_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_text('name = "here"\n')
    assert edge_settings({}, {"FEDAIGC_EDGE_CONFIG": str(file)}).name == "here"


def test_text_in_the_environment_needs_no_quotes() -> None:
    environment = {
        "FEDAIGC_EDGE_DATA": "/srv/edge 1",
        "FEDAIGC_EDGE_NAME": "12",
        "FEDAIGC_EDGE_SERVE_GATE": "/g",
    }
    settings = edge_settings({}, environment)
    assert (settings.data, settings.name, settings.serve.gate) == (Path("/srv/edge 1"), "12", Path("/g"))


def test_the_machines_model_store_is_taken_unless_the_device_has_its_own() -> None:
    machine = {"FEDAIGC_MODELS": "/srv/models"}
    assert edge_settings({}, machine).models == Path("/srv/models")
    assert edge_settings({}, machine | {"FEDAIGC_EDGE_MODELS": "/own"}).models == Path("/own")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot = 1\n", "unknown key prot"),
        ("[serve]\nprot = 1\n", "unknown key serve.prot"),
        ('[serve]\nport = "x"\n', "serve.port must be int"),
        ("[serve]\nport = 70000\n", "0 to 65535"),
        ("port = [\n", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "edge.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=complaint) as caught:
        edge_settings({}, {}, file)
    assert str(file) in str(caught.value)


def test_a_misspelt_variable_is_refused() -> None:
    with pytest.raises(SettingsError, match="FEDAIGC_EDGE_PROT"):
        edge_settings({}, {"FEDAIGC_EDGE_PROT": "1"})


def test_a_wrong_value_in_the_environment_or_on_the_command_line_names_it() -> None:
    with pytest.raises(SettingsError, match="environment"):
        edge_settings({}, {"FEDAIGC_EDGE_SERVE_PORT": "many"})
    with pytest.raises(SettingsError, match="command line"):
        edge_settings({"serve.port": -1}, {})


def test_the_shipped_file_names_every_key_with_its_default() -> None:
    path = REPOSITORY / "configs" / "edge.toml"
    assert edge_settings({}, {}, path) == EdgeSettings()
    text = path.read_text(encoding="utf-8")
    uncommented = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    assert set(tomllib.loads(uncommented)) == {
        "data",
        "models",
        "model",
        "name",
        "serve",
        "batching",
        "budget",
        "federation",
    }
