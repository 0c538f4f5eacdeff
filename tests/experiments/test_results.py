"""What readers of ``results.json`` get: strict JSON, with everything a run depended on and found."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble.experiments import store
from optensemble.experiments.outcome import BLACK_BOX_ENSEMBLE, WHITE_BOX_ENSEMBLE
from tests.experiments.conftest import NAMES, SMALL, Finished

pytestmark = pytest.mark.slow


def read_strictly(path: Path) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def test_results_have_settings_versions_and_every_payoff(finished: Finished) -> None:
    document = read_strictly(finished.folder / "results.json")
    assert document["settings"] == dataclasses.asdict(SMALL)
    versions: dict[str, str] = document["versions"]
    assert versions.pop("python") == platform.python_version()
    assert {"optensemble", "numpy", "scikit-learn", "numba"} <= versions.keys()
    assert versions == {name: importlib.metadata.version(name) for name in versions}
    assert list(document["experiments"]) == list(NAMES)
    for name, numbers in document["experiments"].items():
        outcome = finished.outcome(name)
        assert (numbers["note"], numbers["members"], numbers["best"]) == (outcome.note, outcome.members, outcome.best)
        for part in ("payoffs", "costs"):
            entries: Any = getattr(outcome, part)
            for line, entry in zip(numbers[part], entries, strict=True):
                assert line == {
                    key: None if pd.isna(value) else value for key, value in dataclasses.asdict(entry).items()
                }
        judged = numbers["judgement"]
        gains = [dataclasses.asdict(gain) for gain in outcome.audit.gains]
        assert judged == {**vars(outcome.audit), "gains": gains}


def test_results_say_how_long_debiasing_took(finished: Finished) -> None:
    document = read_strictly(finished.folder / "results.json")
    costs = [line for numbers in document["experiments"].values() for line in numbers["costs"]]
    spent = [line["seconds"] for line in costs if line["policy"] in (WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE)]
    assert len(spent) == 2 * len(NAMES)
    assert document["seconds"]["debiasing"] == pytest.approx(sum(spent))
    assert 0 < document["seconds"]["debiasing"] < document["seconds"]["everything"]


@pytest.mark.parametrize("spoil", [lambda: float("nan"), lambda: np.float64("inf")], ids=["nan", "infinity"])
def test_what_is_not_a_number_is_null(spoil: Callable[[], float], tmp_path: Path) -> None:
    store.save_summary(tmp_path, {"a": [spoil(), {"b": np.float64(0.1)}], "c": np.int64(3)})
    assert read_strictly(tmp_path / "results.json") == {"a": [None, {"b": 0.1}], "c": 3}
