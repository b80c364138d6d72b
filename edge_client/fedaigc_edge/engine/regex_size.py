"""How far a regular expression's repetitions multiply, told without expanding them."""

from __future__ import annotations

import re

_PART = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\()|(?P<close>\))|\{(?P<low>\d+)(?:,(?P<high>\d*))?\}|.",
    re.DOTALL,
)


def repetitions(pattern: str) -> int:
    """The largest product of `{n,m}` counts inside one another, at least 1.

    >>> repetitions("(a{1000}){1000}")
    1000000
    >>> repetitions("a{3}b{1,4}[{9}]")
    4
    """
    largest = [1]
    last = 1
    for part in _PART.finditer(pattern):
        if part["open"]:
            largest.append(1)
            last = 1
        elif part["close"]:
            last = largest.pop() if len(largest) > 1 else last
        elif part["low"]:
            # int() refuses thousands of digits; ten are too many already.
            last *= max(int(number[:10]) for number in (part["low"], part["high"] or "0"))
        else:
            last = 1
        largest[-1] = max(largest[-1], last, 1)
    return max(*largest, 1)
