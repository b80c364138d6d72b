"""Ask a device's /health fifty times a second: `python -m bench.health_prober PORT`.

A process of its own, so that what it measures is the device's delay and not its caller's. It ends when its
standard input does, and prints the milliseconds of every round trip as one JSON list.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

EVERY_S = 0.02
_REQUEST = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def probe(port: int) -> list[float]:
    """Milliseconds of each round trip over one kept connection."""
    trips: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not select.select([sys.stdin], [], [], EVERY_S)[0]:
            asked = time.perf_counter()
            connection.sendall(_REQUEST)
            _answer(connection)
            trips += delays_ms(time.perf_counter() - asked)
    return trips


def delays_ms(seconds: float) -> list[float]:
    """What a caller each 20 ms would have waited while one answer took `seconds`; the longest first.

    Else one long pause would count once, however many callers it held up (coordinated omission).
    """
    missed = int(seconds / EVERY_S)
    return [(seconds - beat * EVERY_S) * 1e3 for beat in range(missed + 1)]


def _answer(connection: socket.socket) -> None:
    answer = b""
    while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
        piece = connection.recv(4096)
        if not piece:
            sys.exit("the device closed the connection")
        answer += piece


if __name__ == "__main__":
    print(json.dumps(probe(int(sys.argv[1]))))
