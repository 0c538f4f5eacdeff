"""Renew what the examples' pages show of their commands' output: `python docs/excerpts.py [EXAMPLE ...]`.

A page shows some lines, with three dots for the rest. Each is replaced by the printed line that is most like it; lines
with dots in them stay as they are. `tests/test_examples.py` compares the pages with what is printed.
"""

from __future__ import annotations

import re
import runpy
import shutil
import sys
import tempfile
from difflib import get_close_matches
from pathlib import Path

from optensemble.jobs.examples import EXAMPLES

DOCS = Path(__file__).parent
SHELL = runpy.run_path(str(DOCS / "console.py"))["Shell"]

_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def renewed(shown: str, printed: str) -> str:
    r"""Return the lines shown, as they are printed now.

    >>> renewed("...\nstack  12.5  yes\n", "mean  9.1  no\nstack  12.6  yes\n")
    '...\nstack  12.6  yes\n'
    """
    by_words = {" ".join(line.split()): line.rstrip() for line in printed.splitlines() if line.strip()}
    return "".join(f"{_renewed_line(line, by_words)}\n" for line in shown.splitlines())


def _renewed_line(line: str, by_words: dict[str, str]) -> str:
    words = " ".join(line.split())
    if "..." in line or words in by_words:
        return line
    close = get_close_matches(words, by_words, n=1, cutoff=0.4)
    return by_words[close[0]] if close else line


def renew(name: str) -> None:
    """Run the commands of a page in an empty folder, and write what they print into the page."""
    page = DOCS / "examples" / f"{name}.md"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(DOCS.parent / "examples" / name / "example.py", folder)
        shell = SHELL(Path(folder))

        def again(part: re.Match[str]) -> str:
            return f"$ {part[1]}\n{renewed(part[2], shell.run(part[1]))}"

        text = page.read_text(encoding="utf-8")
        page.write_text(_BLOCK.sub(lambda block: _COMMAND.sub(again, block[0]), text), encoding="utf-8")


if __name__ == "__main__":
    for example in sys.argv[1:] or EXAMPLES:
        renew(example)
