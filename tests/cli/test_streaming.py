"""Commands on tables larger than memory, and on clusters: the same bytes; interrupts that can be gone on from."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from optensemble.cli.console import ProgressBar
from optensemble.distributed import cluster
from optensemble.persistence.checkpoint import CheckpointedEngine
from tests.cli.calling import Line
from tests.cli.refusals import DECIDE, FAILED, FIT, INTERRUPTED, ROWS, WRONG_USE, refused, require_line
from tests.jobs.worlds import write_job, write_table

STREAMED = (*FIT, "--memory", "1kB", "--forget-rows")
DASK_NOISE = pytest.mark.filterwarnings("ignore::ResourceWarning")
PASSES = "out.oe.passes"


@pytest.fixture
def whole(line: Line, folder: Path) -> bytes:
    """The ensemble as it is fitted in memory."""
    assert line("fit", "job.toml", "-o", "whole.oe", "--forget-rows").code == 0
    return (folder / "whole.oe").read_bytes()


def interrupt_pass(number: int) -> pytest.MonkeyPatch:
    """Interrupt a fit before it makes the pass of this number."""
    patch, run = pytest.MonkeyPatch(), CheckpointedEngine.run

    def interrupted(self: CheckpointedEngine, *given: Any) -> Any:
        if self.made == number:
            raise KeyboardInterrupt
        return run(self, *given)

    patch.setattr(CheckpointedEngine, "run", interrupted)
    return patch


def test_a_streamed_fit_writes_the_same_bytes(line: Line, folder: Path, whole: bytes) -> None:
    said = line(*STREAMED)
    assert (said.code, said.err) == (0, "")
    assert (folder / "out.oe").read_bytes() == whole
    assert not (folder / PASSES).exists()


@pytest.mark.no_cover
@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_interrupted_fit_goes_on(number: int, line: Line, folder: Path, whole: bytes) -> None:
    patch = interrupt_pass(number)
    said = line(*STREAMED)
    patch.undo()
    kept = f"{number} finished pass{'es are' if number != 1 else ' is'} kept in {PASSES}"
    assert (said.code, said.out) == (INTERRUPTED, "")
    assert said.err == f"optensemble: Interrupted. {kept}: go on with --resume.\n"
    assert not (folder / "out.oe").exists()
    assert len(list((folder / PASSES).iterdir())) == number
    assert line(*STREAMED, "--resume").code == 0
    assert (folder / "out.oe").read_bytes() == whole
    assert not (folder / PASSES).exists()


def test_an_interrupt_in_the_middle_of_a_pass_keeps_those_before(line: Line, folder: Path, whole: bytes) -> None:
    def stop(self: ProgressBar, stage: str, share: float) -> None:
        if stage == "choosing":
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProgressBar, "__call__", stop)
        said = line(*STREAMED)
    assert said.code == INTERRUPTED
    assert re.search(r"Interrupted. [1-9]\d* finished passes are kept in out.oe.passes: go on with --resume", said.err)
    assert line(*STREAMED, "--resume").code == 0
    assert (folder / "out.oe").read_bytes() == whole


def test_a_fit_in_memory_that_is_interrupted_keeps_nothing(line: Line, folder: Path) -> None:
    def stop(self: ProgressBar, stage: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProgressBar, "__call__", stop)
        said = line(*FIT)
    assert (said.code, said.err) == (INTERRUPTED, "optensemble: Interrupted. Nothing was written.\n")
    assert not (folder / PASSES).exists()


def test_an_interrupt_that_compiled_code_turns_into_an_error_is_one(line: Line, folder: Path) -> None:
    def stop(self: ProgressBar, stage: str, share: float) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("numpy failed to import") from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may have it ignored
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProgressBar, "__call__", stop)
        said = line(*FIT)
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler
    assert (said.code, said.err) == (INTERRUPTED, "optensemble: Interrupted. Nothing was written.\n")


def test_resuming_without_a_checkpoint(line: Line, folder: Path) -> None:
    refused(line, folder, (*STREAMED, "--resume"), WRONG_USE, f"there is no checkpoint {PASSES} to go on from")


def test_resuming_what_fits_in_memory(line: Line, folder: Path) -> None:
    refused(line, folder, (*FIT, "--resume"), WRONG_USE, "--resume goes on with the fit of a streamed table")


@pytest.mark.parametrize("change", ["job", "rows"])
def test_resuming_another_job(change: str, line: Line, folder: Path) -> None:
    patch = interrupt_pass(2)
    line(*STREAMED)
    patch.undo()
    if change == "job":
        write_job(folder, data={"id": "day"}, ensemble={"seed": 7})
    else:
        write_table(ROWS[1:], folder / "history.csv")
    said = refused(line, folder, (*STREAMED, "--resume"), WRONG_USE, f"the checkpoint {PASSES} is of another fit")
    assert "Leave --resume out to begin anew." in said
    assert line(*STREAMED).code == 0  # begins anew


def test_resuming_from_a_damaged_checkpoint(line: Line, folder: Path) -> None:
    patch = interrupt_pass(2)
    line(*STREAMED)
    patch.undo()
    (folder / PASSES / "pass-1").write_bytes(b"nothing")
    refused(line, folder, (*STREAMED, "--resume"), FAILED, "pass-1", "Leave --resume out to begin anew")


@pytest.mark.parametrize("size", ["much", "0GB", "-1"])
def test_no_size_of_memory(size: str, line: Line, folder: Path) -> None:
    refused(line, folder, (*FIT, f"--memory={size}"), WRONG_USE, "--memory must be a size such as 2GB")


# Clusters


@pytest.mark.parametrize("command", [FIT, DECIDE], ids=["fit", "decide"])
def test_one_cluster_at_a_time(command: tuple[str, ...], line: Line, folder: Path) -> None:
    given = (*command, "--workers", "2", "--scheduler", "tcp://127.0.0.1:1")
    refused(line, folder, given, WRONG_USE, "--scheduler", "--workers", "Give one of them")


@pytest.mark.parametrize("command", [FIT, DECIDE], ids=["fit", "decide"])
def test_a_scheduler_that_does_not_answer(
    command: tuple[str, ...], line: Line, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", "500ms")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
    said = require_line(line(*command, "--scheduler", address), WRONG_USE)
    assert said == f"optensemble: no Dask scheduler answers at {address}. Check the address.\n"


@pytest.mark.no_cover
@pytest.mark.slow
@DASK_NOISE
def test_workers_write_the_same_bytes(line: Line, folder: Path, whole: bytes) -> None:
    said = line(*STREAMED, "--workers", "2")
    assert (said.code, said.err) == (0, "")
    assert (folder / "out.oe").read_bytes() == whole
    assert line(*DECIDE).code == 0
    expected = (folder / "out.csv").read_bytes()
    said = line(*DECIDE, "--workers", "2")
    assert (said.code, said.err) == (0, "")
    assert (folder / "out.csv").read_bytes() == expected
