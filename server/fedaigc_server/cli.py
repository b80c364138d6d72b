"""`fedaigc-server`: parse, call; nothing else."""

from __future__ import annotations

import sys
from typing import Any

import click

import fedaigc
from fedaigc.errors import FedaigcError
from fedaigc_server.commands.node import node
from fedaigc_server.commands.policy import policy
from fedaigc_server.commands.round import round_group
from fedaigc_server.commands.start import start
from fedaigc_server.commands.status import status
from fedaigc_server.commands.token import token


class _Server(click.Group):
    """Prints our errors on stderr and leaves with their exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FedaigcError as error:
            click.echo(error.told("--json" in sys.argv), err=True)
            ctx.exit(error.exit_code)


@click.group(cls=_Server)
@click.version_option(fedaigc.__version__, prog_name="fedaigc-server")
def server() -> None:
    """Run the datacenter side: enrolment, the ledger, learning rounds and policy versions.

    \b
    Example:
      fedaigc-server start --public-name dc.example.org
      fedaigc-server token create --region eu
      fedaigc-server round run --min-nodes 2
    """


for _command in (start, status, token, node, round_group, policy):
    server.add_command(_command)


def main() -> None:
    """The console script."""
    server(prog_name="fedaigc-server")
