"""Clean data are left in peace: no warning in twenty worlds, from Python and from files."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from tests.mistakes.worlds import World, clean_world, command, job_folder, job_text

pytestmark = pytest.mark.slow


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(20))
def test_clean_data_cause_no_warning(seed: int) -> None:
    world = clean_world(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = world.ensemble.fit(world.X, world.Y, **world.options)
        answer, promise = fitted.answer(world.X_new), fitted.promise(world.X_new)
        audit = fitted.audit(world.X_new, world.Y_new, **world.audit_options)
    assert fitted.data_warnings_ == []
    assert answer.absent == {}
    assert (answer.mended, answer.fallback, audit.totals.unlabelled) == (0, 0, 0)
    assert not promise.unlike
    assert np.isfinite([promise.low, promise.high]).all()


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(4))
def test_clean_tables_cause_no_warning(seed: int) -> None:
    world = World.make(100 + seed)
    history, data = world.table(), {"subgroups": '"region"'}
    if seed == 1:
        data["groups"] = '"customer"'
    if seed == 2:
        history, data = history.assign(day=world.days.strftime("%Y-%m-%d")), data | {"time": '"day"'}
    later = world.later_table()
    later = later.assign(day=pd.date_range("2027-01-01", periods=len(later)).strftime("%Y-%m-%d"))
    with job_folder(history, job_text(data=data), later=later) as folder:
        for arguments in (
            ("check", "job.toml"),
            ("fit", "job.toml"),
            ("decide", "ensemble.oe", "later.csv", "-o", "decisions.csv"),
            ("audit", "ensemble.oe", "later.csv"),
        ):
            said = command(folder, *arguments)
            assert (said.code, said.err) == (0, ""), arguments
