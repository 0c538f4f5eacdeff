"""Examples on pages are run as doctests; what is beside them is not imported."""

from __future__ import annotations

collect_ignore_glob = ["start/*", "*.py"]
