"""One choice of an answer while it grows: stop sequences, its limit, and which tokens made the text."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedaigc_edge.engine.generator import Piece
from fedaigc_edge.engine.sampling import TokenChoice
from fedaigc_edge.serve.request import TokenReader
from fedaigc_edge.serve.stop_text import StopText


@dataclass(frozen=True)
class TokenLogprob:
    """A token of a choice by its bytes, with logprobs in nats; `repr` shows no text.

    A special token has no bytes.
    """

    data: bytes = field(repr=False)
    logprob: float
    top: tuple[tuple[bytes, float], ...] = field(repr=False)
    """The likeliest tokens at its place, best first."""
    offset: int
    """Where its text begins in the choice's text, characters."""


@dataclass(frozen=True)
class Delta:
    """What a choice gained; `repr` shows no text."""

    index: int
    text: str = field(repr=False)
    logprobs: tuple[TokenLogprob, ...] = field(default=(), repr=False)


class ChoiceText:
    """Feed an engine's pieces in order; get back what may be shown.

    Args:
        index: the choice's number.
        stops: text is cut before the first of these.
        limit: tokens that it may have.
        token_bytes: what tokens are in text, for logprobs.
    """

    def __init__(self, index: int, stops: Sequence[str], limit: int, token_bytes: TokenReader) -> None:
        self.index = index
        self.finish = "cancelled"
        """Why it ended: stop, length or cancelled."""
        self.tokens = 0
        """Tokens it used so far."""
        self.logprob_sum = 0.0
        self.ended = False
        """Whether nothing more is to come: its engine may stop."""
        self._stops = StopText(stops)
        self._limit = limit
        self._token_bytes = token_bytes
        self._fed = 0
        self._shown = 0
        self._waiting: deque[TokenLogprob] = deque()

    def feed(self, piece: Piece) -> Delta:
        """The text that is certain now, and the tokens that it begins with."""
        if self.ended:
            return Delta(self.index, "")
        if self.tokens + piece.tokens > self._limit:
            # An engine keeps to the limit; one that does not is cut here.
            self.finish, self.ended = "length", True
            return self._delta(self._stops.end())
        self.tokens += piece.tokens
        text = _whole(piece.text)
        self._wait(piece, text)
        self._fed += len(text)
        shown = self._stops.feed(text)
        if self._stops.stopped:
            self.finish, self.ended = "stop", True
        elif piece.finish is not None:
            self.finish, self.ended = piece.finish, True
            shown += self._stops.end()
        return self._delta(shown)

    def _wait(self, piece: Piece, text: str) -> None:
        place = self._fed
        for number, choice in enumerate(piece.choices):
            data = self._token_bytes(choice.token)
            last = number == len(piece.choices) - 1
            if last and piece.finish == "stop" and not data:
                break  # the end mark is no part of the text
            self.logprob_sum += choice.logprob or 0.0
            self._waiting.append(self._logprob(choice, data, min(place, self._fed + len(text))))
            place += len(data.decode("utf-8", "ignore"))

    def _logprob(self, choice: TokenChoice, data: bytes, offset: int) -> TokenLogprob:
        top = tuple((self._token_bytes(token), logprob) for token, logprob in choice.top)
        return TokenLogprob(data, choice.logprob or 0.0, top, offset)

    def _delta(self, text: str) -> Delta:
        self._shown += len(text)
        ready: list[TokenLogprob] = []
        # A token is shown with the first character of its text; those of a stop sequence never are.
        cut = self._stops.stopped
        while self._waiting and (self._waiting[0].offset < self._shown or (self.ended and not cut)):
            ready.append(self._waiting.popleft())
        return Delta(self.index, text, tuple(ready))


def _whole(text: str) -> str:
    """`text` as UTF-8 can carry it, so that what is fingerprinted is what the caller reads."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
