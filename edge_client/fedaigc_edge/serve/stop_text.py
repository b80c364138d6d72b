"""Find stop sequences across token borders; text that might begin one is held back until that is decided."""

from __future__ import annotations

from collections.abc import Sequence


class StopText:
    """Feed pieces of text in order; get back what may be shown. Without stops, everything at once."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False
        """Whether a stop was found; nothing more is shown then."""

    def feed(self, piece: str) -> str:
        """The text that is now certain to stand before any stop sequence."""
        if self.stopped:
            return ""
        text = self._held + piece
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = max((overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def end(self) -> str:
        """What was held back and turned out to be no stop, once no more text comes."""
        rest, self._held = self._held, ""
        return rest


def overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a proper beginning of `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[-length:]):
            return length
    return 0
