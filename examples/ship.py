"""Put the examples into the package, for `optensemble init --example`: job files, and what make_data.py writes."""

from __future__ import annotations

import gzip
import os
import runpy
import shutil
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
THERE = HERE.parent / "src" / "optensemble" / "jobs" / "example_files"


def ship(example: Path, folder: Path) -> None:
    """Write the files of one example; its new rows are left out, for they are the later ones without labels."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(example / "job.toml", folder / "job.toml")
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        runpy.run_path(str(example / "make_data.py"), run_name="__main__")
        for path in Path(made).iterdir():
            if path.name in ("history.csv", "later.csv"):
                (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            elif path.name != "new.csv":
                shutil.copyfile(path, folder / path.name)
        os.chdir(HERE)


if __name__ == "__main__":
    for job in sorted(HERE.resolve().glob("*/job.toml")):
        ship(job.parent, THERE.resolve() / job.parent.name)
