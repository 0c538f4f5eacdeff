from __future__ import annotations

from pathlib import Path

import pytest

from optensemble.experiments.reproduce import reproduce_paper
from optensemble.experiments.settings import Settings


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small run of all four experiments."""
    settings = Settings(rows=100, rounds=60, fresh_rows=400, training_rows=1000)
    return reproduce_paper(tmp_path_factory.mktemp("reproduction"), settings).page
