from __future__ import annotations

import random
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fedaigc.errors import LedgerError, RequestInvalid, StorageError, VerificationFailed
from fedaigc.ledger_check import check_receipt
from fedaigc.ledger_tree import EMPTY_ROOT, verify_growth
from fedaigc.signed_note import LogSigner, open_checkpoint
from fedaigc.signing import SigningKey
from fedaigc_server.ledger.ledger import MAX_BATCH, Ledger
from fedaigc_server.ledger.signed_mark import SignedMark, TreeHead
from tests.server.ledger.outputs import NODE, OTHER_NODE, item, output_entry, plain_entries, tag_of


def change(path: Path, statement: str) -> None:
    """What someone with the file, but not the key, can do to it."""
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(statement).rowcount
    connection.close()


def test_indices_count_from_zero_and_entries_come_back_unchanged(ledger: Ledger) -> None:
    entries = plain_entries(5)
    assert ledger.size == 0
    assert ledger.append(entries[:3]) == [0, 1, 2]
    assert ledger.append([]) == []
    assert ledger.append(entries[3:]) == [3, 4]
    assert [ledger.entry(index) for index in range(5)] == entries
    assert ledger.size == 5


def test_every_entry_of_every_batch_has_a_receipt_that_checks_offline(ledger: Ledger) -> None:
    chosen = random.Random(3)
    entries: list[bytes] = []
    while len(entries) < 300:
        batch = plain_entries(chosen.randrange(1, 40), len(entries))
        ledger.append(batch)
        entries += batch
    receipts = ledger.receipts(range(len(entries)))
    for index, receipt in enumerate(receipts):
        checked = check_receipt(receipt, ledger.vkey)
        assert (checked.index, checked.checkpoint.size) == (index, len(entries))
        assert checked.entry.to_bytes() == entries[index]
    assert ledger.receipt(7) == receipts[7]


def test_old_receipts_stay_valid_while_the_ledger_grows(ledger: Ledger) -> None:
    ledger.append(plain_entries(3))
    old = ledger.receipt(1)
    ledger.append(plain_entries(40, 3))
    check_receipt(old, ledger.vkey)


def test_any_two_checkpoints_are_linked_by_a_consistency_proof(ledger: Ledger) -> None:
    checkpoints = [open_checkpoint(ledger.checkpoint(), ledger.vkey)]
    assert checkpoints[0].root == EMPTY_ROOT
    for number in range(1, 12):
        ledger.append(plain_entries(number))
        checkpoints.append(open_checkpoint(ledger.checkpoint(), ledger.vkey))
    for first in checkpoints:
        for second in checkpoints[checkpoints.index(first) :]:
            proof = ledger.consistency(first.size, second.size)
            verify_growth(first.size, second.size, proof, first.root, second.root)


def test_a_size_is_signed_once_and_stored_before_it_is_returned(
    ledger: Ledger, path: Path, signer: LogSigner
) -> None:
    ledger.append(plain_entries(3))
    note = ledger.checkpoint()
    assert ledger.checkpoint() == note
    with Ledger.open(path, signer) as second:
        assert second.checkpoint() == note
    stored = sqlite3.connect(path).execute("SELECT size, note FROM checkpoint").fetchall()
    assert stored == [(3, note)]


def test_threads_and_a_second_opener_never_lose_an_entry_nor_sign_a_size_twice(
    ledger: Ledger, path: Path, signer: LogSigner
) -> None:
    with Ledger.open(path, signer) as second, ThreadPoolExecutor(8) as pool:

        def work(number: int) -> tuple[list[int], str]:
            which = (ledger, second)[number % 2]
            return which.append(plain_entries(3, number * 3)), which.checkpoint()

        results = list(pool.map(work, range(60)))
    assert sorted(index for indices, _ in results for index in indices) == list(range(180))
    notes = {open_checkpoint(note, ledger.vkey).size: note for _, note in results}
    assert all(notes[open_checkpoint(note, ledger.vkey).size] == note for _, note in results)
    for number, (indices, _) in enumerate(results):
        assert [ledger.entry(index) for index in indices] == plain_entries(3, number * 3)
    for receipt in ledger.receipts(range(180)):
        check_receipt(receipt, ledger.vkey)


def test_delivering_the_same_outputs_again_changes_nothing(ledger: Ledger) -> None:
    first = ledger.append_outputs(NODE, [item(1), item(2)])
    assert first == [(1, 0), (2, 1)]
    again = ledger.append_outputs(NODE, [item(2), item(3), item(1), item(3)])
    assert again == [(2, 1), (3, 2), (1, 0), (3, 2)]
    assert ledger.size == 3


def test_two_nodes_may_use_the_same_number(ledger: Ledger) -> None:
    ledger.append_outputs(NODE, [item(1)])
    assert ledger.append_outputs(OTHER_NODE, [item(1, OTHER_NODE)]) == [(1, 1)]


def test_another_entry_under_a_used_number_is_refused_whole(ledger: Ledger) -> None:
    ledger.append_outputs(NODE, [item(1)])
    for batch in ([item(2), item(1, labels=1)], [item(2), item(2, labels=1)]):
        with pytest.raises(LedgerError) as caught:
            ledger.append_outputs(NODE, batch)
        assert "twice" in caught.value.what
        assert caught.value.do_next
    assert ledger.size == 1
    assert ledger.search([tag_of(2)]) == ([], 0)


def test_an_entry_that_is_not_an_output_of_this_node_is_refused(ledger: Ledger) -> None:
    for bad in (item(1, OTHER_NODE), replace(item(2), seq=1)):
        with pytest.raises(RequestInvalid):
            ledger.append_outputs(NODE, [item(3), bad])
    assert ledger.size == 0


def test_search_finds_by_any_tag_in_order_and_counts_what_it_leaves_off(ledger: Ledger) -> None:
    shared = bytes(16)
    ledger.append_outputs(NODE, [item(seq, tags=(shared, shared, tag_of(seq))) for seq in range(5)])
    found, total = ledger.search([shared], limit=3)
    assert ([match.index for match in found], total) == ([0, 1, 2], 5)
    found, total = ledger.search([tag_of(3), shared[:15] + b"\1", tag_of(1)])
    assert [(match.index, match.month, match.opening) for match in found] == [
        (1, "2026-12", b"sealed 1"),
        (3, "2026-12", b"sealed 3"),
    ]
    assert total == 2
    assert ledger.search([]) == ([], 0)


def test_erasing_tags_and_opening_changes_no_proof(ledger: Ledger, path: Path, signer: LogSigner) -> None:
    ledger.append_outputs(NODE, [item(seq) for seq in range(4)])
    before = ledger.receipts(range(4))
    change(path, "DELETE FROM sealed_opening WHERE idx = 2")
    assert ledger.search([tag_of(2)])[0][0].opening is None
    change(path, "DELETE FROM output_tag WHERE idx = 2")
    assert ledger.search([tag_of(2)]) == ([], 0)
    assert ledger.receipts(range(4)) == before
    Ledger.open(path, signer).close()


def test_a_stored_tree_that_was_changed_after_signing_is_not_opened(path: Path, signer: LogSigner) -> None:
    for statement in (
        "UPDATE tree_node SET hash = zeroblob(32) WHERE level = 2",
        "DELETE FROM entry WHERE idx = 6",
        "DELETE FROM tree_node WHERE level = 0 AND idx = 6",
        "DELETE FROM tree_node WHERE level = 2",
        "UPDATE checkpoint SET size = 6",
        "UPDATE checkpoint SET note = replace(note, '7', '6')",
    ):
        for file in path.parent.iterdir():
            file.unlink()
        with Ledger.open(path, signer) as ledger:
            ledger.append(plain_entries(7))
            ledger.checkpoint()
        change(path, statement)
        with pytest.raises((VerificationFailed, StorageError)) as caught:
            Ledger.open(path, signer)
        assert caught.value.do_next, statement


def test_a_log_that_was_cut_below_its_signed_size_is_not_opened(path: Path, signer: LogSigner) -> None:
    with Ledger.open(path, signer) as ledger:
        ledger.append(plain_entries(7))
        ledger.checkpoint()
    change(path, "DELETE FROM entry WHERE idx = 6")
    change(path, "DELETE FROM tree_node WHERE level = 0 AND idx = 6")
    with pytest.raises(VerificationFailed, match="not the one that was signed"):
        Ledger.open(path, signer)


def test_a_file_that_is_changed_under_a_running_server_is_not_signed_for(ledger: Ledger, path: Path) -> None:
    ledger.append(plain_entries(7))
    note = ledger.checkpoint()
    change(path, "UPDATE tree_node SET hash = zeroblob(32) WHERE level = 2")
    ledger.append(plain_entries(1))
    with pytest.raises(StorageError, match="changed"):
        ledger.checkpoint()
    change(path, "DELETE FROM entry WHERE idx > 3")
    with pytest.raises(StorageError, match="changed"):
        ledger.checkpoint()
    assert sqlite3.connect(path).execute("SELECT note FROM checkpoint").fetchall() == [(note,)]


def test_another_logs_key_does_not_open_the_file(path: Path, signer: LogSigner) -> None:
    with Ledger.open(path, signer) as ledger:
        ledger.checkpoint()
    with pytest.raises(VerificationFailed):
        Ledger.open(path, LogSigner(signer.name, SigningKey.generate()))


def test_an_entry_that_was_changed_on_the_disk_gets_no_receipt(ledger: Ledger, path: Path) -> None:
    ledger.append(plain_entries(5))
    ledger.checkpoint()
    change(path, "UPDATE entry SET data = (SELECT data FROM entry WHERE idx = 1) WHERE idx = 3")
    with pytest.raises(StorageError, match="changed"):
        ledger.receipt(3)
    check_receipt(ledger.receipt(2), ledger.vkey)
    change(path, "DELETE FROM entry WHERE idx = 3")
    with pytest.raises(StorageError):
        ledger.receipt(3)


def test_a_full_disk_loses_nothing_and_says_so(ledger: Ledger, path: Path, signer: LogSigner) -> None:
    ledger.append_outputs(NODE, [item(seq) for seq in range(20)])
    with ledger._file.reading() as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StorageError, match="cannot grow") as caught:
        ledger.append_outputs(NODE, [item(seq) for seq in range(20, 200)])
    assert "full" in caught.value.why
    with pytest.raises(StorageError, match="cannot grow"):
        ledger.append(plain_entries(200))
    assert ledger.size == 20
    with ledger._file.reading() as db:
        db.execute("PRAGMA max_page_count = 1000000")
    assert len(ledger.append_outputs(NODE, [item(seq) for seq in range(10, 30)])) == 20
    for receipt in ledger.receipts(range(30)):
        check_receipt(receipt, ledger.vkey)
    Ledger.open(path, signer).close()


def test_a_damaged_file_is_a_storage_error_with_a_next_step(path: Path, signer: LogSigner) -> None:
    with Ledger.open(path, signer) as ledger:
        for start in range(0, 2_000, 500):
            ledger.append(plain_entries(500, start))
        ledger.checkpoint()
    good = path.read_bytes()
    (path.parent / "ledger.db-wal").unlink(missing_ok=True)
    for damaged in (
        b"not a database at all" * 100,
        good[:4096] + bytes(len(good) - 4096),
        good[: len(good) // 2],
    ):
        path.write_bytes(damaged)
        with pytest.raises(StorageError) as caught, Ledger.open(path, signer) as ledger:
            ledger.receipts(range(2_000))
        assert caught.value.do_next


def test_there_is_no_entry_beyond_the_last(ledger: Ledger) -> None:
    ledger.append(plain_entries(2))
    for index in (-1, 2, 2**70):
        with pytest.raises(RequestInvalid):
            ledger.entry(index)
        with pytest.raises(RequestInvalid):
            ledger.receipt(index)
    for first, second in ((-1, 2), (2, 1), (0, 3)):
        with pytest.raises(RequestInvalid):
            ledger.consistency(first, second)


def test_a_batch_beyond_the_limit_or_an_empty_entry_is_refused(ledger: Ledger) -> None:
    for batch in ([b"x"] * (MAX_BATCH + 1), [b""], [output_entry(1), b"x" * 32_769]):
        with pytest.raises(LedgerError):
            ledger.append(batch)
    assert ledger.size == 0


def test_a_closed_ledger_says_so_in_our_own_errors(ledger: Ledger) -> None:
    ledger.close()
    with pytest.raises(StorageError):
        ledger.append(plain_entries(1))


def test_an_old_copy_that_was_put_back_is_refused_before_it_signs_a_second_log(
    path: Path, signer: LogSigner
) -> None:
    for step in range(2):
        with Ledger.open(path, signer) as ledger:
            ledger.append(plain_entries(4, 4 * step))
            ledger.receipts([0])
        if not step:
            shutil.copy(path, path.with_name("backup"))
    shutil.copy(path.with_name("backup"), path)
    with pytest.raises(StorageError, match=r"holds 4 entries, and there were 8; an old copy.*another server"):
        Ledger.open(path, signer)


@pytest.mark.parametrize("how", ["emptied", "missing", "without its journal"])
def test_a_ledger_that_was_emptied_is_not_begun_anew(path: Path, signer: LogSigner, how: str) -> None:
    ledger = Ledger.open(path, signer)
    ledger.append(plain_entries(4))
    ledger.checkpoint()
    main = path.read_bytes()
    ledger.close()
    path.unlink()
    if how != "missing":
        path.write_bytes(b"" if how == "emptied" else main)
    with pytest.raises(StorageError, match="second log"):
        Ledger.open(path, signer)


def test_another_log_of_the_same_length_under_the_same_key_is_refused(path: Path, signer: LogSigner) -> None:
    with Ledger.open(path, signer) as ledger:
        ledger.append(plain_entries(4))
        ledger.checkpoint()
    with Ledger.open(path.with_name("other.db"), signer) as other:
        other.append(plain_entries(9, 100))
        other.checkpoint()
    shutil.copy(path.with_name("other.db"), path)
    with pytest.raises(StorageError, match="first 4 entries are not the ones"):
        Ledger.open(path, signer)


def test_killed_between_the_commit_and_its_mark_nothing_left_and_the_ledger_opens(
    path: Path, signer: LogSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(mark: SignedMark, head: TreeHead) -> None:
        raise KeyboardInterrupt

    with Ledger.open(path, signer) as ledger:
        ledger.append(plain_entries(3))
        with monkeypatch.context() as dying:
            dying.setattr(SignedMark, "note", die)
            with pytest.raises(KeyboardInterrupt):
                ledger.receipts([0])
    before = SignedMark(path).head()
    with Ledger.open(path, signer) as ledger:
        marked = SignedMark(path).head()
        assert before is not None
        assert marked is not None
        assert (before.size, marked.size) == (0, 3)
        assert open_checkpoint(ledger.checkpoint(), ledger.vkey).root == marked.root


def test_a_copy_that_is_put_under_a_running_server_is_not_signed_for(
    ledger: Ledger, path: Path, signer: LogSigner
) -> None:
    ledger.append(plain_entries(7))
    ledger.checkpoint()
    change(path, "DELETE FROM checkpoint")
    change(path, "DELETE FROM tree_node WHERE idx > 0 OR level > 0")
    change(path, "DELETE FROM entry WHERE idx > 0")
    with pytest.raises(StorageError, match="there were 7"):
        ledger.checkpoint()
