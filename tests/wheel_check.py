"""Run by the interpreter of an empty environment that holds the built wheel and nothing else of this project."""

from __future__ import annotations

import tempfile
from importlib.resources import files
from pathlib import Path

import numpy as np

import optensemble as oe
from optensemble import feasible
from optensemble.jobs.examples import EXAMPLES, write_example
from optensemble.report.html import html_page


def main() -> None:
    assert "site-packages" in oe.__file__, f"imported from {oe.__file__}, not from the wheel"
    assert files("optensemble").joinpath("py.typed").is_file(), "the wheel has lost its py.typed"
    X, noise = np.random.default_rng(0).normal(size=(2, 200, 2))
    models = [("same", lambda X: X), ("half", lambda X: X / 2)]
    ensemble = oe.WhiteBoxEnsemble(models, feasible.Simplex(2), validation=None).fit(X, X + 0.5 * noise)
    assert ensemble.converged_, ensemble.stopped_
    assert "prefers-color-scheme" in html_page("title"), "the wheel has lost the style of its pages"
    with tempfile.TemporaryDirectory() as folder:
        for name in EXAMPLES:
            written = write_example(name, Path(folder) / name / "job.toml")
            assert len(written.tables) >= 3, f"the wheel has lost the tables of {name}"
    print(f"the wheel works: optensemble {oe.__version__}")


if __name__ == "__main__":
    main()
