"""Members for workers: one that kills the process that asks it first, one that fails, one that is slow."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optensemble.exceptions import InputError


@dataclass(frozen=True)
class Deadly:
    """Says what its columns say; the first process that asks dies, if it is not the one that made it."""

    columns: tuple[str, ...]
    marker: Path
    parent: int

    def predict(self, X: Any) -> Any:
        if os.getpid() != self.parent:
            try:
                self.marker.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return X[list(self.columns)].to_numpy()


@dataclass(frozen=True)
class Refusing:
    """Refuses to answer in any process but that which made it."""

    columns: tuple[str, ...]
    parent: int
    ours: bool

    def predict(self, X: Any) -> Any:
        if os.getpid() != self.parent:
            raise InputError("there are no prices today. Ask tomorrow.") if self.ours else ArithmeticError("no prices")
        return X[list(self.columns)].to_numpy()


@dataclass(frozen=True)
class Slow:
    """Takes its time on workers, and notes every time that it begins."""

    columns: tuple[str, ...]
    notes: Path
    parent: int

    def predict(self, X: Any) -> Any:
        if os.getpid() != self.parent:
            (self.notes / f"{time.monotonic_ns()}").touch()
            time.sleep(0.3)
        return X[list(self.columns)].to_numpy()
