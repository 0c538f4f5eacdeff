"""The process of the command ``optensemble``, which starts and ends quickly because it runs nobody else's code."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import NoReturn

from optensemble._core.estimator import do_without_scikit_learn

_COLLECT_AFTER = 200_000
"""Objects allocated between garbage collections: at Python's 700 a tenth of the time of a small job goes into them."""


def is_program() -> bool:
    """Return whether this process is the command; in any other, Python code calls it and goes on afterwards."""
    path = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    return "optensemble" in (path.stem, path.parent.name if path.name == "__main__.py" else "")


def start_quickly() -> None:
    """Load no scikit-learn, and collect garbage rarely."""
    do_without_scikit_learn()
    gc.set_threshold(_COLLECT_AFTER)


def exit_quickly(code: int, failed: int) -> NoReturn:
    """End the process without taking apart what it has loaded, which takes a fifth of the time of a small job.

    Files are closed and threads have ended by now: whoever opened or started one has waited for it.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the reader has gone, or the stream is closed
            code = code or failed
    os._exit(code)
