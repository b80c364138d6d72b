"""The officer's questions, from the folder and the content to a verified answer."""

from __future__ import annotations

from datetime import datetime

from fedaigc.errors import LedgerError, RequestInvalid, VerificationFailed
from fedaigc.ledger_check import CheckedEntry, check_receipt
from fedaigc.ledger_entry import UNSTATED_CASE
from fedaigc.signed_note import Checkpoint
from fedaigc_server.officer.admin_connection import AdminConnection
from fedaigc_server.officer.content import MAX_MONTHS, fingerprint_content, months_until, tags_of
from fedaigc_server.officer.folder import OfficerFolder
from fedaigc_server.officer.growth import check_growth, last_seen
from fedaigc_server.officer.verdict import SearchVerdict, judge_search


def search_ledger(folder: OfficerFolder, source: str, case: str, months: int, now: datetime) -> SearchVerdict:
    """Search for the content of a file, or of standard input for `-`, in the `months` months up to `now`.

    Only tags are sent. Raises VerificationFailed when the ledger's signature does not check or it did not
    only grow since it was last seen, and the errors of the folder, the content and the connection.
    """
    if not 1 <= months <= MAX_MONTHS:
        raise RequestInvalid("This is no span to look back", "", f"give 1 to {MAX_MONTHS} months", "months")
    # Keys first: without them no question is asked, and none is recorded.
    tenant, tag_key = folder.tenant_key(), folder.tag_key()
    content = fingerprint_content(source)
    tags = tags_of(content, tag_key, months_until(now, months))
    with AdminConnection(folder) as connection:
        seen = last_seen(folder)
        answer = connection.search(case or UNSTATED_CASE, tags)
        found = judge_search(answer, content, tenant, folder.log_vkey)
        check_growth(folder, seen, found.note, connection)
    return found


def show_entry(folder: OfficerFolder, index: int) -> tuple[CheckedEntry, str]:
    """Entry `index` and its receipt, verified; raises VerificationFailed, or the connection's errors."""
    with AdminConnection(folder) as connection:
        receipt = connection.entry(index).get("receipt")
    if not isinstance(receipt, str):
        raise LedgerError("The ledger's answer is malformed", "", "both sides must run versions that fit")
    checked = check_receipt(receipt, folder.log_vkey)
    if checked.index != index:
        raise VerificationFailed(
            "The ledger answered with another entry", f"number {checked.index}", "report it"
        )
    return checked, receipt


def check_status(folder: OfficerFolder) -> tuple[Checkpoint, Checkpoint | None]:
    """The present checkpoint and the one seen last, proven to be one growing ledger."""
    with AdminConnection(folder) as connection:
        seen = last_seen(folder)
        return check_growth(folder, seen, connection.checkpoint(), connection), seen
