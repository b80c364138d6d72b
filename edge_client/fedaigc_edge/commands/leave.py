"""`fedaigc-edge leave`: end this device's part, and on request everything it keeps."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import click

from fedaigc.errors import FolderInUse, Unavailable
from fedaigc_edge.commands.options import data_options, settings_of

STOP_WAIT_S = 60.0


@click.command()
@data_options
@click.option("--erase", is_flag=True, help="Also delete keys, enrolment, evidence and feedback.")
@click.option("--yes", is_flag=True, help="Do not ask before erasing.")
def leave(data: Path | None, config: Path | None, erase: bool, yes: bool) -> None:
    """Stop this device and mark it as having left; with --erase, delete its data after asking.

    Models stay: delete their folder yourself. The server is not told: ask its operator to revoke the node.

    \b
    Example:
      fedaigc-edge leave --erase

    \b
    Exit codes: 0 done, 1 not confirmed, 3 the daemon does not stop, 4 not joined.
    """
    from fedaigc.child_process import end_leftovers
    from fedaigc.files import folder_lock
    from fedaigc_edge.enrolment import Enrolment
    from fedaigc_edge.standing import StandingRecord

    folder = settings_of(config, data=data).data
    enrolment = Enrolment.load(folder)
    if erase and not yes:
        _confirm(folder)
    _stop_daemon(folder)
    with folder_lock(folder):
        end_leftovers(folder)
        StandingRecord(folder).left()
        if erase:
            _erase(folder)
    click.echo(f"{enrolment.node} left{' and its data is erased' if erase else ''}.", err=True)
    click.echo(
        f"The server was not told: ask the operator of {enrolment.address} to run\n"
        f"  fedaigc-server node revoke {enrolment.node}",
        err=True,
    )


def _confirm(folder: Path) -> None:
    from fedaigc_edge.status import undelivered

    waiting = undelivered(folder)
    if waiting:
        click.echo(f"{waiting} fingerprints were not delivered yet and would be lost.", err=True)
    click.confirm(
        f"Delete keys, evidence and feedback in {folder}? This cannot be undone", abort=True, err=True
    )


def _stop_daemon(folder: Path) -> None:
    from fedaigc.files import folder_lock
    from fedaigc_edge.commands.daemon_call import ask_daemon

    try:
        ask_daemon(folder, "POST", "/leave")
    except Unavailable:
        return
    until = time.monotonic() + STOP_WAIT_S
    while True:
        try:
            with folder_lock(folder):
                return
        except FolderInUse:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def _erase(folder: Path) -> None:
    from fedaigc_edge.status import DEVICE_FILES

    for name in DEVICE_FILES:
        for path in folder.glob(name):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
