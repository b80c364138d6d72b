"""A plain table on standard output, with the column's own width."""

from __future__ import annotations

from collections.abc import Sequence


def show(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a title and a table; numbers with a fraction get three significant places."""
    cells = [list(heads), *[[_text(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    print(f"\n{title}")
    for row in cells:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join([row[0].ljust(len(first)), *rest]), flush=True)


def _text(cell: object) -> str:
    return (
        f"{cell:.3g}"
        if isinstance(cell, float) and abs(cell) < 1000
        else f"{cell:.0f}"
        if isinstance(cell, float)
        else str(cell)
    )
