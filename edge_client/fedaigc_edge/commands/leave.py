"""`fedaigc-edge leave`: end this device's part, and on request everything it keeps."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import click

from fedaigc.errors import FedaigcError, FolderInUse, Unavailable
from fedaigc.stop_signals import INTERRUPTED, ended_by_signals
from fedaigc_edge.commands.options import data_options, settings_of

STOP_WAIT_S = 60.0


@click.command()
@data_options
@click.option("--erase", is_flag=True, help="Also delete keys, enrolment, evidence and feedback.")
@click.option("--yes", is_flag=True, help="Do not ask before erasing.")
@click.option("--force", is_flag=True, help="Leave although fingerprints could not be delivered.")
def leave(data: Path | None, config: Path | None, erase: bool, yes: bool, force: bool) -> None:
    """Deliver what is owed to the ledger, stop this device and mark it as having left.

    Undelivered fingerprints get half a minute; if the server is not reachable the device stays joined, unless
    --force is given: then they stay in the folder and are delivered when a device runs there again. With
    --erase its data is deleted after asking. Models stay: delete their folder yourself. The server is not
    told: ask its operator to revoke the node.

    \b
    Example:
      fedaigc-edge leave
      fedaigc-edge leave --erase

    \b
    Exit codes: 0 done, 1 not confirmed, 3 the daemon does not stop, 4 not joined,
    15 fingerprints are not delivered and the device stays joined, 130 interrupted.
    """
    from fedaigc.child_process import end_leftovers
    from fedaigc.files import folder_lock
    from fedaigc_edge.standing import StandingRecord

    folder = settings_of(config, data=data).data
    with ended_by_signals(INTERRUPTED):
        farewell = _farewell(folder)
        if not force:
            _deliver(folder, erase)
        if erase and not yes:
            _confirm(folder)
        _stop_daemon(folder)
        with folder_lock(folder):
            end_leftovers(folder)
            if not force:
                _deliver_rest(folder, erase)
            StandingRecord(folder).left()
            if erase:
                _erase(folder)
    erased = " Its data is erased." if erase else ""
    click.echo(f"The device in {folder} left.{erased}\n{farewell}", err=True)


def _farewell(folder: Path) -> str:
    """What the operator has to do; raises IdentityError when the device has not joined."""
    from fedaigc_edge.enrolment import Enrolment, is_damaged

    if is_damaged(folder):
        return (
            "Its enrolment is damaged, so its node's name is not known here: ask the operator to find it:\n"
            "  fedaigc-server node list"
        )
    enrolment = Enrolment.load(folder)
    return (
        f"The server was not told: ask the operator of {enrolment.address} to run\n"
        f"  fedaigc-server node revoke {enrolment.node}"
    )


def _deliver(folder: Path, erase: bool) -> None:
    from fedaigc.files import folder_lock
    from fedaigc_edge.commands.last_delivery import deliver_by_daemon, deliver_here

    if deliver_by_daemon(folder, erase):
        return
    with folder_lock(folder):
        deliver_here(folder, erase)


def _deliver_rest(folder: Path, erase: bool) -> None:
    """What was sealed while the daemon stopped; when it cannot be delivered the device has not left."""
    from fedaigc_edge.commands.last_delivery import deliver_here
    from fedaigc_edge.standing import StandingRecord

    try:
        deliver_here(folder, erase)
    except FedaigcError:
        StandingRecord(folder).returned()
        raise


def _confirm(folder: Path) -> None:
    from fedaigc_edge.status import undelivered, undelivered_former

    waiting = undelivered(folder) + undelivered_former(folder)
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
