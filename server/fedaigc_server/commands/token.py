"""`fedaigc-server token`: let devices in."""

from __future__ import annotations

from pathlib import Path

import click

from fedaigc_server.admin.operator_limits import MAX_REGION_CHARS, MAX_TOKEN_HOURS
from fedaigc_server.commands.options import (
    FiniteRange,
    ShortText,
    data_folder,
    data_option,
    json_option,
    moment,
    show,
)

HOURS = FiniteRange(0, MAX_TOKEN_HOURS, min_open=True)


@click.group()
def token() -> None:
    """Join tokens."""


@token.command()
@data_option
@click.option(
    "--region",
    type=ShortText(MAX_REGION_CHARS),
    default="default",
    show_default=True,
    help="The region that the device will be in.",
)
@click.option("--hours", type=HOURS, default=24.0, show_default=True, help="How long the token is valid.")
@json_option
def create(data: Path | None, region: str, hours: float, as_json: bool) -> None:
    """Print a token that lets one device join; it is shown this once and works once.

    \b
    Example:
      fedaigc-server token create --region eu --hours 2
      fedaigc-edge join --token "$(fedaigc-server token create --json | jq -r .token)"

    \b
    Exit codes: 0 done, 2 a wrong option, 4 operator token missing, 15 the server is not running.
    """
    from fedaigc_server.commands.admin_call import ask_admin

    body = {"region": region, "hours": hours, "role": "edge"}
    made = ask_admin(data_folder(data), "POST", "/v1/tokens", body)
    lines = [
        made["token"],
        "",
        f"Valid until {moment(made['expires'])}, for one device. On the device run:",
        f"  fedaigc-edge join https://{made['address']} --token <the token above>",
    ]
    show(made, as_json, lines)
