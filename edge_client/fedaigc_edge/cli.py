"""`fedaigc-edge`: parse, load settings, call; nothing else."""

from __future__ import annotations

import click

import fedaigc
from fedaigc.command_line import ToldGroup
from fedaigc_edge.commands.feedback import feedback
from fedaigc_edge.commands.join import join
from fedaigc_edge.commands.leave import leave
from fedaigc_edge.commands.run import run
from fedaigc_edge.commands.status import status


class _Device(ToldGroup):
    """Imports the model commands only when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), "model"})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "model" and "model" not in self.commands:
            from fedaigc_edge.model.model_cli import model

            self.add_command(model, "model")
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Device)
@click.version_option(fedaigc.__version__, prog_name="fedaigc-edge")
def device() -> None:
    """Serve a generative model on this device, prove what it made, and learn in private.

    \b
    Example:
      fedaigc-edge join https://dc.example.org:8443 --token fedaigc1... --pull
      fedaigc-edge status
    """


for _command in (join, run, status, leave, feedback):
    device.add_command(_command)


def main() -> None:
    """The console script."""
    device(prog_name="fedaigc-edge")
