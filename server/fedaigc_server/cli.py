"""`fedaigc-server`: parse, call; nothing else."""

from __future__ import annotations

import click

import fedaigc
from fedaigc.command_line import ToldGroup
from fedaigc_server.commands.node import node
from fedaigc_server.commands.policy import policy
from fedaigc_server.commands.round import round_group
from fedaigc_server.commands.start import start
from fedaigc_server.commands.status import status
from fedaigc_server.commands.token import token


@click.group(cls=ToldGroup)
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
