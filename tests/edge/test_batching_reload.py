from __future__ import annotations

import asyncio
from pathlib import Path

from fedaigc_edge.batching_reload import BatchingReload
from fedaigc_edge.engine.batching_window import BatchingWindow, WindowSettings
from fedaigc_edge.settings import edge_settings


def _reload(path: Path, window: BatchingWindow) -> BatchingReload:
    return BatchingReload(path, lambda: edge_settings({}, {}, path).batching, window.update)


def test_a_changed_file_changes_the_window(tmp_path: Path) -> None:
    path = tmp_path / "edge.toml"
    path.write_text("[batching]\nwindow_ms = 50\n")
    window = BatchingWindow(WindowSettings(window_ms=50.0))
    watched = _reload(path, window)
    assert not watched.reload()
    path.write_text("[batching]\nwindow_ms = 200\nmax_batch = 64\n")
    assert watched.reload()
    assert (window.window_ms, window.settings.max_batch) == (200.0, 64)


def test_a_bad_or_missing_file_leaves_the_window_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "edge.toml"
    path.write_text("[batching]\nwindow_ms = 50\n")
    window = BatchingWindow(WindowSettings(window_ms=50.0))
    watched = _reload(path, window)
    for bad in ("[batching]\nwindow_ms = 4\n", "[batching]\nwindow = 5\n", "not toml"):
        path.write_text(bad)
        assert not watched.reload()
    path.unlink()
    assert not watched.reload()
    assert window.window_ms == 50.0
    path.write_text("[batching]\nwindow_ms = 60\n")
    assert watched.reload()


def test_watching_takes_a_change_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "edge.toml"
    path.write_text("")
    window = BatchingWindow(WindowSettings(window_ms=50.0))
    watched = _reload(path, window)

    async def go() -> None:
        watching = asyncio.create_task(watched.watch(0.01))
        path.write_text("[batching]\nwindow_ms = 77\n")
        async with asyncio.timeout(10):
            while window.window_ms != 77.0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(go())
