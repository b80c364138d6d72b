from __future__ import annotations

import sqlite3

from fedaigc_server.ledger.schema import APPLICATION_ID, TABLES


def test_the_tables_can_be_made_and_the_file_says_whose_it_is() -> None:
    connection = sqlite3.connect(":memory:")
    for statement in TABLES:
        connection.execute(statement)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_nothing_in_the_permanent_tables_can_point_from_content_to_an_entry() -> None:
    permanent = [text for text in TABLES if text.startswith(("CREATE TABLE entry", "CREATE TABLE tree_node"))]
    assert len(permanent) == 2
    assert not any(word in text for text in permanent for word in ("tag", "opening", "salt", "month"))
