"""The process of the program ``optensemble``: a quick start and a quick exit, as no other code runs in it."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import LazyLoader, module_from_spec
from pathlib import Path
from typing import Any, NoReturn

from typer.core import TyperCommand

from optensemble._core.estimator import do_without_scikit_learn

_COLLECT_AFTER = 1_000_000
"""Allocations between garbage collections; with the default of 700 they take a tenth of the time of a small job."""

_DEFERRED = ("f2py", "testing")
"""Parts of numpy that nothing here uses: SciPy asks for each of numpy's names, and so would load them."""


class Command(TyperCommand):
    """A command that, when it is run in the program, loads less of numpy; its help loads nothing of it."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        if is_program():
            _defer_parts_of_numpy()
        return super().invoke(ctx)


def is_program() -> bool:
    """Return whether this process is the program, and not other Python code that calls ``main``."""
    path = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    return "optensemble" in (path.stem, path.parent.stem if path.name == "__main__.py" else "")


def start_quickly() -> None:
    """Do without scikit-learn, and collect garbage rarely."""
    do_without_scikit_learn()
    gc.set_threshold(_COLLECT_AFTER)


def _defer_parts_of_numpy() -> None:
    """Let parts of numpy be loaded only when something in them is used, which saves SciPy half of its start."""
    numpy: Any = import_module("numpy")
    for name in _DEFERRED:
        spec = PathFinder.find_spec(f"numpy.{name}", numpy.__path__)
        if name in vars(numpy) or spec is None or spec.loader is None:
            continue  # loaded already, or not in this version of numpy
        spec.loader = LazyLoader(spec.loader)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(numpy, name, module)


def exit_quickly(code: int, failed: int) -> NoReturn:
    """End the process without freeing its objects, which takes a fifth of the time of a small job.

    Files are closed and threads are joined by now: both are only used in ``with`` blocks.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the reader has gone, or the stream is closed
            code = code or failed
    os._exit(code)
