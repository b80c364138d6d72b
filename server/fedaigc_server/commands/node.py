"""`fedaigc-server node`: who is in, and out."""

from __future__ import annotations

from pathlib import Path

import click

from fedaigc_server.admin.operator_limits import MAX_REASON_CHARS
from fedaigc_server.commands.options import (
    NODE,
    ShortText,
    data_folder,
    data_option,
    json_option,
    moment,
    show,
    table,
)


@click.group()
def node() -> None:
    """Enrolled devices."""


@node.command("list")
@data_option
@json_option
def list_nodes(data: Path | None, as_json: bool) -> None:
    """List every enrolled device and its standing.

    \b
    Example:
      fedaigc-server node list --json | jq '.nodes[] | select(.standing == "active")'

    \b
    Exit codes: 0 done, 4 operator token missing, 15 the server is not running.
    """
    from fedaigc_server.commands.admin_call import ask_admin

    found = ask_admin(data_folder(data), "GET", "/v1/nodes")
    rows = [
        (
            item["node"],
            item["name"],
            item["region"],
            item["standing"],
            moment(item["last_seen"]),
            item["policy"],
        )
        for item in found["nodes"]
    ]
    head = ("NODE", "NAME", "REGION", "STANDING", "LAST SEEN", "POLICY")
    empty = "No device has joined yet. Make a token: fedaigc-server token create"
    show(found, as_json, table(rows, head, empty))


@node.command()
@click.argument("node_id", metavar="NODE", type=NODE)
@data_option
@click.option(
    "--reason",
    type=ShortText(MAX_REASON_CHARS),
    default="revoked by the operator",
    show_default=True,
    help="Goes to the ledger.",
)
@json_option
def revoke(node_id: str, data: Path | None, reason: str, as_json: bool) -> None:
    """Shut NODE out at once and for good; coming back needs new keys and a new token.

    \b
    Example:
      fedaigc-server node revoke n-0123456789abcdef --reason "stolen"

    \b
    Exit codes: 0 done, 2 no such node, 4 operator token missing, 15 the server is not running.
    """
    from fedaigc_server.commands.admin_call import ask_admin

    path = f"/v1/nodes/{node_id}/revoke"
    done = ask_admin(data_folder(data), "POST", path, {"reason": reason})
    show(done, as_json, [f"{done['node']} is revoked."])
