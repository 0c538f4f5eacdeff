"""Solver objects that belong to one thread."""

from __future__ import annotations

import threading
from typing import Any


class PerThread:
    """A place for solvers that each thread builds for itself; copies and pickles are made without them."""

    def __init__(self) -> None:
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._local = threading.local()
