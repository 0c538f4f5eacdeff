"""One line for each request, without what was sent: method, path, status, time and size."""

from __future__ import annotations

import sys
import threading
from collections import deque
from datetime import UTC, datetime
from time import sleep
from typing import TextIO

import orjson

FORMATS = ("text", "json")
_LONGEST = 200  # characters of a path
_MOST_WAITING = 10_000  # lines: if nobody reads them, they are dropped
_PAUSE = 0.05  # seconds between writes: lines are written together


class AccessLog:
    """Writes lines to a stream, in a thread of its own, for a stream may block; without a format, none."""

    def __init__(self, form: str, stream: TextIO | None = None) -> None:
        self._form, self._stream = form, stream
        self._lines: deque[str] = deque(maxlen=_MOST_WAITING)
        self._bell, self._closed = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="optensemble access log", daemon=True)
        if form:
            self._thread.start()

    def add(self, method: str, path: str, status: int, seconds: float, size: int) -> None:
        """Write the line of a request, soon."""
        if not self._form:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        took = round(1000 * seconds, 2)
        if self._form == "json":
            told = {"time": now, "method": method, "path": escaped(path), "status": status, "ms": took, "bytes": size}
            line = orjson.dumps(told).decode()
        else:
            line = f"{now} {method} {escaped(path)} {status} {took:.2f} ms {size} bytes"
        self._lines.append(line)
        if not self._bell.is_set():
            self._bell.set()

    def close(self) -> None:
        """Write what waits."""
        self._closed = True
        self._bell.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._closed or self._lines:
            self._bell.wait()
            self._bell.clear()
            count = len(self._lines)
            if count:
                text = "".join(f"{self._lines.popleft()}\n" for _ in range(count))
                try:
                    stream = self._stream or sys.stderr
                    stream.write(text)
                    stream.flush()
                except (OSError, ValueError):  # nobody reads it any more, which is no reason to answer nobody
                    self._form = ""
                    return
            if not self._closed:
                sleep(_PAUSE)


def escaped(text: str) -> str:
    r"""Return a text that stays in its line, and in its place: what cannot be printed, and spaces, are escaped.

    >>> escaped("/a" + chr(10) + "200 OK" + chr(27))
    '/a\\x0a200\\x20OK\\x1b'
    """
    text = text[:_LONGEST]
    if text.isprintable() and " " not in text:
        return text
    return "".join(each if each.isprintable() and each != " " else _code(each) for each in text)


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
