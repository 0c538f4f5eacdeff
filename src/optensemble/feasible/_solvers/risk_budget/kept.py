"""What takes long to make, and may be asked for again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Thing = TypeVar("Thing")

_MOST = 64
"""Things that are kept: sets of portfolios have a few times d^2 numbers each, and take milliseconds to make."""


class Kept(Generic[Thing]):
    """Things under keys that they depend on alone, the last few that were asked for; copies and pickles are empty."""

    def __init__(self) -> None:
        self._things: OrderedDict[bytes, Thing] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes, make: Callable[[], Thing]) -> Thing:
        """Return the thing under a key, made now if it is not there."""
        with self._lock:
            if key in self._things:
                self._things.move_to_end(key)
                return self._things[key]
        made = make()
        with self._lock:
            self._things[key] = made
            while len(self._things) > _MOST:
                self._things.popitem(last=False)
        return made

    def __reduce__(self) -> tuple[type[Kept[Any]], tuple[()]]:
        return Kept, ()
