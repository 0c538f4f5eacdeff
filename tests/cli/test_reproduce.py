"""The command line: a real run from end to end, an interrupt, help, and wrong use."""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import optensemble
from optensemble import cli
from optensemble.experiments import store
from optensemble.experiments.learning_curve.store import save_curve
from optensemble.experiments.settings import CurveSettings, Settings
from tests.experiments.curves import made_up_curve
from tests.experiments.outcomes import made_up
from tests.interrupts import heed_interrupts

pytestmark = pytest.mark.slow

QUICK = ["--rows", "100", "--rounds", "50", "--fresh-rows", "300"]
FORCED = {"FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "GITHUB_ACTIONS", "COLUMNS"}
PLAIN = {name: value for name, value in os.environ.items() if name not in FORCED}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "optensemble", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=PLAIN,
        preexec_fn=heed_interrupts,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, out, err


def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int | str | None, str, str]:
    """The command in this process: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["optensemble", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    out, err = capsys.readouterr()
    return caught.value.code, out, err


def test_the_package_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["optensemble", "--version"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("optensemble", run_name="__main__")
    assert capsys.readouterr().out == f"optensemble {optensemble.__version__}\n"


# Runs


def test_a_run_from_end_to_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said, err = finish(start("reproduce", "--experiments", "a", *QUICK, "--out", str(out)))
    assert (code, err) == (0, "")  # not a terminal: no bars
    assert not CONTROL.search(said)
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert list(results["experiments"]) == ["A"]
    assert Settings(**results["settings"]) == Settings(rows=100, rounds=50, fresh_rows=300)
    for line in results["experiments"]["A"]["payoffs"]:
        row = next(row for row in said.splitlines() if row.startswith(f"{line['policy']}  "))
        assert f"{line['realised']:.2f}" in row
    assert "report.html" in said


def test_an_interrupt_keeps_what_is_finished_and_resume_goes_on_from_there(tmp_path: Path) -> None:
    first = tmp_path / "experiment_A.json"
    command = ["reproduce", "--experiments", "A,B", *QUICK, "--out", str(tmp_path)]
    process, deadline = start(*command), time.monotonic() + 120
    while not first.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert len(err.strip().splitlines()) == 1
    assert f"Interrupted. Finished and in {tmp_path}: A. " in err
    assert "--resume" in err
    assert str(tmp_path) in err
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
    kept = first.read_bytes()
    assert json.loads(kept)["name"] == "A"

    code, out, err = finish(start(*command, "--resume"))
    assert (code, err) == (0, "")
    assert first.read_bytes() == kept
    assert list(json.loads((tmp_path / "results.json").read_bytes())["experiments"]) == ["A", "B"]


def test_going_on_with_other_options_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store.save_outcome(tmp_path, made_up(), Settings(seed=1))
    code, out, err = call(monkeypatch, capsys, "reproduce", "--out", str(tmp_path), "--resume", "--seed", "2")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"optensemble: .*experiment_A.json was run with seed 1, not 2\. .*--resume\.\n", err)


def test_what_is_given_is_what_is_run_and_the_tables_come_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {
        "rows": 190,
        "rounds": 7,
        "seed": 3,
        "noise": 0.5,
        "trees": "exact",
        "debias_on": "train",
        "fresh_rows": 80,
    }
    for name in "CA":  # finished before, so that nothing is left to run
        store.save_outcome(tmp_path, made_up(name), Settings(**options))
    pairs = [(f"--{key.replace('_', '-')}", str(value)) for key, value in options.items()]
    given = ["--experiments", " c , A,", *(word for pair in pairs for word in pair), "--out", str(tmp_path), "--resume"]
    code, out, err = call(monkeypatch, capsys, "reproduce", *given)
    assert (code, err) == (0, "")
    assert out.index("Experiment C") < out.index("Experiment A")
    results = json.loads((tmp_path / "results.json").read_bytes())
    assert results["settings"] == {**results["settings"], **options}
    assert list(results["experiments"]) == ["C", "A"]


def test_a_learning_curve_is_resumed_and_printed_for_each_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = CurveSettings(sizes=(400, 2000, 10_000), joint_rounds=7)
    for name in "CA":  # finished before, so that nothing is left to run
        store.save_outcome(tmp_path, made_up(name), Settings())
        save_curve(tmp_path, made_up_curve(name), Settings(), curve)
    given = ["--experiments", "C,A", "--learning-curve", "--sizes", " 2000, 400 ,10000", "--joint-rounds", "7"]
    code, out, err = call(monkeypatch, capsys, "reproduce", *given, "--out", str(tmp_path), "--resume")
    assert (code, err) == (0, "")
    assert out.index("Experiment C by debiasing rows") < out.index("Experiment A by debiasing rows")
    (line, _) = [line for line in out.splitlines() if line.startswith("white box, joint  ")]
    assert line.split("  ")[-3:] == ["8.00 → 6.00", "8.00 → 7.50", "8.00 → 7.95"]
    assert "Nothing was left out" in out
    assert json.loads((tmp_path / "results.json").read_bytes())["learning_curve"]["settings"]["sizes"] == [*curve.sizes]


# Help, version and wrong use


def test_help_tells_options_and_examples() -> None:
    assert "reproduce" in CliRunner().invoke(cli.app, ["--help"]).stdout
    result = CliRunner().invoke(cli.app, ["reproduce", "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
    for option in (
        "experiments",
        "rows",
        "rounds",
        "seed",
        "noise",
        "trees",
        "debias-on",
        "fresh-rows",
        "learning-curve",
        "sizes",
        "minutes",
        "out",
        "resume",
    ):
        assert f"--{option}" in text
    assert "optensemble reproduce --resume" in text


def test_the_version_is_the_packages() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"optensemble {optensemble.__version__}\n")


def test_without_a_command_there_is_help() -> None:
    result = CliRunner().invoke(cli.app, [])
    assert result.exit_code == 2
    assert "reproduce" in result.output


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--rows", "99"),
        ("--rows", "many"),
        ("--rounds", "0"),
        ("--seed", "-1"),
        ("--noise", "-0.5"),
        ("--noise", "loud"),
        ("--trees", "oak"),
        ("--debias-on", "test"),
        ("--fresh-rows", "0"),
        ("--colour", "red"),
    ],
)
def test_a_wrong_option_is_named(option: str, value: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["reproduce", option, value, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert option in re.sub(r"\x1b\[[0-9;]*m", "", result.stderr)
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--experiments", "E"], "'A', 'B', 'C', 'D'; got 'E'"),
        (["--experiments", "A,A"], "each once; got A, A"),
        (["--experiments", ","], "each once; got none"),
        (["--noise", "inf"], "noise must be a finite number at least 0; got inf"),
        (["--debias-on", "train", "--rows", "10001"], "10,000 training rows to debias on; got rows=10,001"),
        (
            ["--sizes", "400", "--minutes", "3"],
            "takes --sizes, --minutes; give --learning-curve too",
        ),
        (
            ["--learning-curve", "--sizes", "400,many"],
            "whole numbers separated by commas, as in 400,2000; got",
        ),
        (["--learning-curve", "--sizes", "400,99"], "sizes must be a whole number at least 100; got 99"),
        (["--learning-curve", "--sizes", ","], "sizes must be numbers of rows, ascending; got none"),
        (["--learning-curve", "--minutes", "0"], "minutes must be"),
        (
            ["--learning-curve", "--debias-on", "train"],
            "held out from training; leave out --debias-on train",
        ),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = call(monkeypatch, capsys, "reproduce", *arguments, "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert err.startswith("optensemble: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_one_line_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    code, out, err = call(monkeypatch, capsys, "reproduce", "--out", str(tmp_path / "file"))
    assert (code, out) == (1, "")
    assert re.fullmatch(r"optensemble: cannot write to .*file: File exists\. Choose another --out\.\n", err)
