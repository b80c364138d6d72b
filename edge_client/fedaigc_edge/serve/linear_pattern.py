"""Regular expressions whose search takes time linear in the text (RE2), because callers choose the text."""

from __future__ import annotations

from typing import Any

from fedaigc.errors import SettingsError

MAX_PROGRAM_BYTES = 8 << 20
"""Memory of one compiled pattern; RE2 refuses one that needs more."""


class PatternRefused(SettingsError):
    """A pattern is not RE2 syntax, is too large, or would match every text."""


class LinearPattern:
    """One compiled pattern. Raises PatternRefused; its text says why and never more than RE2 reports."""

    def __init__(self, source: str) -> None:
        # Here, so that commands that never judge a text start without the extra `edge`.
        import re2

        options = re2.Options()
        options.max_mem = MAX_PROGRAM_BYTES
        options.log_errors = False
        options.never_capture = True
        self.source = source
        try:
            self._compiled: Any = re2.compile(source, options)
        except (re2.error, UnicodeError) as error:
            reason = error.args[0] if error.args else ""
            why = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else type(error).__name__
            raise PatternRefused(
                why, "", "use RE2 syntax: no look-around and no back-references, or quote the YAML value"
            ) from None
        if self.found_in(""):
            raise PatternRefused("it matches the empty text", "", "it would refuse every request: narrow it")

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        return self._compiled.search(text) is not None
