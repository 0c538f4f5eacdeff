"""From a log to the ensemble it is of: at whatever moment the process ended, it goes on to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from tests.ensembles.live import bits
from tests.log.logged import after_a_crash, with_log
from tests.persistence.test_live_files import WORLDS, stream


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_a_resumed_ensemble_goes_on_as_one_that_never_ended(name: str, tmp_path: Path) -> None:
    world, number = WORLDS[name], list(WORLDS).index(name)
    never = with_log(world.make(), tmp_path / "log.db")
    events = list(stream(number, never.expire_after, weigh=world.weigh))
    moments = set(np.random.default_rng(number).choice(len(events), 4, replace=False).tolist())
    copies, pending, expected = dict[int, Path](), 0, list[list[Any]]()
    for at, event in enumerate(events):
        running = never._now.running is not None
        if at in moments or (running and pending < 2):
            copies[at] = after_a_crash(tmp_path / "log.db", tmp_path / f"{at}.db")
            pending += running
        expected.append(world.step(never, event))
    assert never.refit == "never" or len(never.refits_) > 1
    assert bool(pending) == (never.refit_in == "thread")
    for at, path in copies.items():
        with oe.LiveEnsemble.resume(path, **world.given) as resumed:
            assert [world.step(resumed, event) for event in events[at:]] == expected[at:]
            assert bits(resumed) == bits(never)
    with oe.LiveEnsemble.resume(tmp_path / "log.db", read_only=True, **world.given) as seen:
        assert bits(seen) == bits(never)
    never.close()
