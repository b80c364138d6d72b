"""Where a join token comes from: the command line, standard input, a file or the environment."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from pathlib import Path

from fedaigc.errors import SettingsError

TOKEN_VARIABLE = "FEDAIGC_TOKEN"  # noqa: S105 (a variable's name)
MAX_TOKEN_INPUT = 4096
STDIN = "-"


def token_text(token: str | None, file: Path | None, environment: MutableMapping[str, str]) -> str:
    """The token as it was given; the environment's is taken out of it, so that no child inherits it.

    Raises SettingsError when there is none, when there are two, or when the file cannot be read.
    """
    inherited = environment.pop(TOKEN_VARIABLE, "")
    if token is not None and file is not None:
        raise SettingsError("Two join tokens were given", "--token and --token-file", "give one of them")
    if file is not None:
        try:
            with file.expanduser().open(encoding="utf-8") as text:
                return text.read(MAX_TOKEN_INPUT)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a text"
            raise SettingsError(
                f"The token file {file} cannot be read", reason or "", "check the path and its mode"
            ) from error
    if token is not None:
        return sys.stdin.read(MAX_TOKEN_INPUT) if token == STDIN else token
    if inherited:
        return inherited
    raise SettingsError(
        "No join token was given",
        "a device joins with one from `fedaigc-server token create`",
        f"give --token-file FILE, --token -, or set {TOKEN_VARIABLE}; --token TOKEN shows it to `ps`",
    )
