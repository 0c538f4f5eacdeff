"""Examples on pages are run as doctests; what is beside them is not imported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

collect_ignore_glob = ["deploy/*", "start/*", "*.py"]

os.environ["MPLBACKEND"] = "Agg"  # plots open no window


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run examples without measuring coverage, which the tests reach."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.no_cover)
