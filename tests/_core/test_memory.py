"""Memory that is used again during a pass."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from optensemble._core import memory
from optensemble._core.memory import reused_memory


@pytest.fixture(autouse=True)
def _look_anew() -> Iterator[None]:
    memory._c_library.cache_clear()
    yield
    memory._c_library.cache_clear()


class Library:
    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def mallopt(self, option: int, value: int) -> int:
        self.calls.append((option, value))
        return 1

    def malloc_trim(self, kept: int) -> int:
        self.calls.append((kept,))
        return 1


def test_freed_memory_is_kept_during_a_pass_and_given_back_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    with reused_memory():
        assert library.calls == [(-3, 32 << 20), (-1, 512 << 20)]
    assert library.calls[2:] == [(-1, 64 << 20), (0,)]


def test_a_worker_keeps_it_for_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    with reused_memory(give_back=False):
        pass
    assert library.calls[2:] == [(-1, 64 << 20)]


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with reused_memory():
        pass


def test_it_works_with_the_library_that_is_there() -> None:
    with reused_memory():
        assert bytearray(1 << 20)
