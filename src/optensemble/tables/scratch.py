"""Room on disk for the work of a fit: arrays of each block of rows, which are gone when the fit ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np

from optensemble.exceptions import FileError


@dataclass(frozen=True)
class FolderScratch:
    """Arrays in the files of a folder, one for each block, written whole or not at all.

    Where the folder is not, as on another machine, nothing is kept and nothing is found.
    """

    folder: Path
    name: str

    def load(self, number: int) -> dict[str, Any] | None:
        """Return the arrays kept for a block; None if there are none."""
        try:
            with np.load(self._path(number)) as found:
                return dict(found)
        except FileNotFoundError:
            return None

    def keep(self, number: int, arrays: dict[str, Any]) -> None:
        """Keep arrays for a block, in the place of those before."""
        if not self.folder.is_dir():
            return
        new = self.folder / f".{uuid4().hex}"
        try:
            with open(new, "xb") as file:
                np.savez(file, **arrays)
            os.replace(new, self._path(number))
        except OSError as error:
            raise FileError(
                f"cannot write {self._path(number)}, where a fit keeps its work: {error.strerror or error}. "
                "Make room there, or set TMPDIR to a folder on a larger disk."
            ) from error
        finally:
            new.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.name}-{number}.npz"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder for the work of a fit, in TMPDIR if that is set; it is removed at the end, whatever happens."""
    with TemporaryDirectory(prefix="optensemble-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
