"""`fedaigc-edge join`: enrol this device with one token and serve."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedaigc.errors import JoinTokenError, ModelError
from fedaigc.stop_signals import INTERRUPTED, STOPPED, ended_by_signals
from fedaigc_edge.commands.options import device_options, ready_json_option, settings_of
from fedaigc_edge.commands.token_input import TOKEN_VARIABLE, token_text
from fedaigc_edge.settings import EdgeSettings, config_file

if TYPE_CHECKING:
    from fedaigc.join_token import JoinToken


@click.command()
@click.argument("url", required=False)
@click.option(
    "--token", help="From `fedaigc-server token create`; - reads it from stdin, where `ps` does not show it."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help=f"A file that holds the token. Without either option: {TOKEN_VARIABLE} in the environment.",
)
@device_options
@click.option("--name", help="What the operator's list shows.  [default: the host's name]")
@click.option("--pull", is_flag=True, help="Fetch and export the model first when it is missing.")
@click.option("--no-serve", is_flag=True, help="Only enrol; start later with `fedaigc-edge run`.")
@ready_json_option
def join(
    url: str | None,
    token: str | None,
    token_file: Path | None,
    data: Path | None,
    config: Path | None,
    models: Path | None,
    model: str | None,
    port: int | None,
    gate: Path | None,
    name: str | None,
    pull: bool,
    no_serve: bool,
    as_json: bool,
) -> None:
    """Join the server at URL with a token, then serve until stopped.

    The token carries the server's address and the fingerprint of its CA; URL wins for the address and may be
    left out. Running the same command again goes on where it was, after a crash as well; with another URL it
    moves the device to its server's new address. The token is used only when the model is there.

    \b
    Example:
      fedaigc-edge join https://dc.example.org:8443 --token fedaigc1... --pull
      fedaigc-edge join --token-file token.txt
      read -rs FEDAIGC_TOKEN && export FEDAIGC_TOKEN && fedaigc-edge join

    \b
    Exit codes: 0 stopped as asked, 2 settings, 3 files, 4 keys or enrolment, 5 token, 6 refused,
    9 model, 10 not the token's server, 15 server not reachable, 16 a child process failed,
    130 stopped before it had joined.
    """
    settings = settings_of(config, data=data, models=models, model=model, port=port, gate=gate, name=name)
    with ended_by_signals(INTERRUPTED):
        ticket = read_ticket(token_text(token, token_file, os.environ))
        if pull:
            pull_model(settings, as_json)
        elif not no_serve:
            require_model(settings)
        joined = _enrol(settings, url, ticket, _silent if as_json else _to_stderr)
    if not no_serve:
        serve(settings, as_json, config_file(os.environ, config))
    elif as_json:
        click.echo(json.dumps({"ready": False, **joined}, ensure_ascii=False))


def read_ticket(text: str) -> JoinToken:
    """The token in what was given; raises JoinTokenError when it is cut short or not for a device."""
    from fedaigc.join_token import JoinToken

    ticket = JoinToken.decode(text)
    if ticket.role != "edge":
        raise JoinTokenError(
            "This token is not for a device", f"its role is {ticket.role}", "ask for a token of role edge"
        )
    return ticket


def _enrol(
    settings: EdgeSettings, url: str | None, ticket: JoinToken, tell: Callable[[str], None]
) -> dict[str, object]:
    from fedaigc.files import folder_lock, private_folder
    from fedaigc_edge.joining import device_name, join_once, server_address
    from fedaigc_edge.standing import StandingRecord

    address = server_address(url, ticket)
    if address != ticket.address:
        tell(f"The token names {ticket.address}; using {address} as given.")
    data = private_folder(settings.data)
    with folder_lock(data):
        enrolment, fresh = join_once(data, address, ticket, device_name(settings.name))
        standing = StandingRecord(data).current
    done = "Joined as" if fresh else "Already joined as"
    tell(f"{done} {enrolment.node} in region {enrolment.region} at {enrolment.address}")
    if enrolment.token_id != ticket.token_id:
        tell("The token was not needed and is still unused.")
    if (refusal := standing.refusal()) is not None:
        tell(f"Note: {refusal}")
    return {
        "node": enrolment.node,
        "name": enrolment.name,
        "region": enrolment.region,
        "server": enrolment.address,
        "standing": standing.state.value,
        "joined_before": not fresh,
    }


def require_model(settings: EdgeSettings) -> None:
    """Raise ModelError unless the settings' model is there, exported and unchanged; say how to get it."""
    from fedaigc_edge.model.store import open_model

    try:
        open_model(settings.models, settings.model)
    except ModelError as error:
        raise ModelError(
            error.what,
            error.why,
            f"{error.do_next}; or join with --pull. The token was not used and is still good",
        ) from error


def pull_model(settings: EdgeSettings, silent: bool = False) -> None:
    """Fetch and export the settings' model unless it is there; raises ModelError."""
    from fedaigc_edge.model.store import open_model

    try:
        open_model(settings.models, settings.model)
        return
    except ModelError:
        pass
    from fedaigc_edge.model.export import export
    from fedaigc_edge.model.pull import pull

    tell = _silent if silent else _step
    pull(settings.model, settings.models, tell)
    export(settings.model, settings.models, tell)


def serve(settings: EdgeSettings, as_json: bool = False, config: Path | None = None) -> None:
    """Run the daemon in the foreground until it is told to stop; say when it is ready."""
    with ended_by_signals(STOPPED):
        from fedaigc.files import PRIVATE_FOLDER
        from fedaigc_edge.banner import show_banner, show_ready_line
        from fedaigc_edge.node import run_device

        # For what libraries open by themselves, such as turned log files.
        os.umask(0o777 & ~PRIVATE_FOLDER)
        run_device(settings, show_ready_line if as_json else show_banner, config)


def _to_stderr(line: str) -> None:
    click.echo(line, err=True)


def _step(line: str) -> None:
    _to_stderr(f"  {line}")


def _silent(line: str) -> None:
    """Under --json stderr holds nothing but an error."""
