"""What our command lines share: every error in one form on standard error, with its exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from fedaigc.errors import FedaigcError, SettingsError

AS_JSON = "--json"
_ASKED = "fedaigc.as_json"


class ToldGroup(click.Group):
    """Prints our errors on stderr with their exit code; under --json a wrong option is told in JSON too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the group's own options."""
        ctx.meta[_ASKED] = AS_JSON in args
        with _telling(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        with _telling(ctx):
            return super().invoke(ctx)


def usage_error(error: click.ClickException) -> SettingsError:
    """What click found wrong with a command line, as an error of our tree; its exit code is click's, 2."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    help_of = f"see: {context.command_path} --help" if context else ""
    return SettingsError(error.format_message().rstrip("."), "", help_of)


@contextmanager
def _telling(ctx: click.Context) -> Iterator[None]:
    as_json: bool = ctx.meta[_ASKED]
    try:
        yield
    except FedaigcError as error:
        click.echo(error.told(as_json), err=True)
        ctx.exit(error.exit_code)
    except click.UsageError as error:
        if not as_json:
            raise
        click.echo(usage_error(error).told(as_json), err=True)
        ctx.exit(SettingsError.exit_code)
