"""`fedaigc-server policy`: the versions that rounds released."""

from __future__ import annotations

from pathlib import Path

import click

from fedaigc_server.commands.options import data_folder, data_option, json_option, moment, show, table


@click.group()
def policy() -> None:
    """Released policy versions."""


@policy.command("list")
@data_option
@json_option
def list_policies(data: Path | None, as_json: bool) -> None:
    """List every policy version, oldest first; version 0 is the base model and not listed.

    \b
    Example:
      fedaigc-server policy list --json | jq '.policies[-1].version'

    \b
    Exit codes: 0 done, 4 operator token missing, 15 the server is not running.
    """
    from fedaigc_server.commands.admin_call import ask_admin

    found = ask_admin(data_folder(data), "GET", "/v1/policies")
    rows = [
        (
            item["version"],
            item["round"],
            item["updates"],
            f"{item['epsilon_max']:.3f}",
            moment(item["minute"] * 60),
            item["adapter"][:16],
        )
        for item in found["policies"]
    ]
    head = ("VERSION", "ROUND", "UPDATES", "MAX EPSILON", "RELEASED", "ADAPTER")
    show(found, as_json, table(rows, head, "Only the base model is in force. Run: fedaigc-server round run"))
