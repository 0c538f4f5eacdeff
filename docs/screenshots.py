"""The tops of the examples' report pages: `python docs/screenshots.py` takes their pictures into docs/images.

Names of examples as arguments take only those. It needs Chromium; the tests find it in the same way.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from optensemble.jobs.examples import EXAMPLES

FOLDER = Path(__file__).parent / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1040, 1000
COLOURS = 128
"""A page has few colours: a palette makes its picture a third as large."""

COMMANDS = ("init --example {}", "fit job.toml -o ensemble.oe", "report ensemble.oe later.csv -o report.html")


def picture_of(name: str) -> Path:
    """Return where the picture of an example's report is."""
    return FOLDER / f"report_{name}.png"


def make_report(name: str, folder: Path) -> Path:
    """Run an example up to its report, in an empty folder."""
    for command in COMMANDS:
        words = command.format(name).split()
        subprocess.run([sys.executable, "-m", "optensemble", *words, "--quiet"], cwd=folder, check=True)
    return folder / "report.html"


def take(browser: Browser, page: Path) -> bytes:
    """Return a picture of the top of a page, as a PNG with a palette."""
    window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", offline=True)
    window.goto(page.as_uri())
    taken = Image.open(io.BytesIO(window.screenshot(animations="disabled"))).convert("RGB")
    window.close()
    packed = io.BytesIO()
    taken.quantize(COLOURS, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def main(names: list[str]) -> None:
    """Take the pictures, and print how large they are."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise SystemExit("no Chromium on this machine: `make browser` installs Debian's")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for name in names or EXAMPLES:
            with tempfile.TemporaryDirectory() as folder:
                picture_of(name).write_bytes(take(browser, make_report(name, Path(folder))))
            sys.stdout.write(f"{picture_of(name).name}: {picture_of(name).stat().st_size:,} bytes\n")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
