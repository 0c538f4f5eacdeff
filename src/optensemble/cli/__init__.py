"""The command line: ``optensemble COMMAND``; each command documents itself with ``--help``."""

from __future__ import annotations

from optensemble.cli.main import app, main

__all__ = ["app", "main"]
