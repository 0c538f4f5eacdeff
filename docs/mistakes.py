"""Write the table of mistakes: each is committed, and what comes of it is what the page says.

``python docs/mistakes.py`` says where the page differs; with ``--write`` it writes ``docs/mistakes.md``. Mistakes are
those of ``tests/mistakes``, which are tests as well. What the version before these rules did was found by running it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from difflib import unified_diff
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mistakes.md"
sys.path.insert(0, str(ROOT))

from tests.mistakes.catalogue import MISTAKES  # noqa: E402
from tests.mistakes.mistake import DONE, PUT_RIGHT, REFUSED, TOLD, Mistake, commit, message  # noqa: E402

_MOST = 420
_NUMBERS = re.compile(r"\d[\d.,]*")
_SILENT = "nothing said"

HEAD = """# Mistakes

<!-- written by `python docs/mistakes.py --write` -->

Nothing should go wrong silently. These are {total} mistakes that people make with real data. Each of them is a test, in
`tests/mistakes`: it is made in a small world of prices, two models and a plan, in Python or on the command line. None
ends in a wrong number without a word:

| | mistakes | what is done |
|---|---|---|
| put right | {put_right} | the result is that of clean data, to 9 digits at least |
| refused | {refused} | an error says what is wrong and what was found, and most say what to do |
| told | {told} | a warning says what was seen, and what to look for |
| done | {done} | what can be done is done, and counted: in `notes_`, in the answer, or in what is printed |

*Before* is what version 7f1c4ab did, found by running it: {silent} of these mistakes passed with nothing said. Clean
data cause no warning: twenty generated worlds are tests as well. The rules are explained in [names](howto/names.md),
[gaps and weights](howto/gaps.md), [only policies](howto/policies.md) and [warnings about data](howto/warnings.md).
"""

TAIL = """
## What nothing can notice

Some mistakes leave numbers that honest data have as well:

- The wrong `sense`: costs that are maximised. `check` and the leaderboard show the mean payoff of each member; look
  whether the better members have the better ones.
- Arrays whose rows or columns are in another order, where members know next to nothing of the labels: there is no
  correlation to tell by. Give frames.
- Forgotten groups: rows of one customer are taken to be independent, and intervals are too short.
- Forgotten time order, in arrays or in frames without a column or an index of times.
- `time_ordered=True` for rows that are in another order, without an index of times to tell.
- A small leak: a model that explains 90 % of the labels' variance may be good, or may know some of them beforehand. An
  audit on rows that were decided in advance shows it.
- Missing labels that were filled with 0, or with the mean: a 0 may be an outage.
- Units that are off by less than a factor of ten.
- A model that looks at all rows it is given at once, to standardise them for instance, and so says something else of a
  row when it is asked about that row alone.
"""


def shortened(text: str) -> str:
    """Return a message in one line of a table, cut after a word."""
    text = " ".join(text.removeprefix("warning: ").split())
    text = text if len(text) <= _MOST else f"{text[:_MOST].rpartition(' ')[0]} …"
    return re.sub(r"([|*_\[\]<>])", r"\\\1", text)


def _row(mistake: Mistake) -> str:
    said = shortened(message(mistake, commit(mistake)))
    return f"| {mistake.name} | {mistake.before} | {mistake.now} | {said} |\n"


def _sections() -> Iterator[str]:
    for title, mistakes in groupby(MISTAKES, key=lambda each: each.group):
        yield f"\n## {title}\n\n| mistake | before | now | message |\n|---|---|---|---|\n"
        yield from map(_row, mistakes)


def page() -> str:
    """Return the page as it should be."""
    counts = Counter(each.now for each in MISTAKES)
    silent = sum(each.before.startswith(_SILENT) for each in MISTAKES)
    names = {"put_right": PUT_RIGHT, "refused": REFUSED, "told": TOLD, "done": DONE}
    head = HEAD.format(total=len(MISTAKES), silent=silent, **{key: counts[name] for key, name in names.items()})
    return head + "".join(_sections()) + TAIL


def without_numbers(text: str) -> str:
    """Return a text without what another machine may compute otherwise."""
    return _NUMBERS.sub("#", text)


def main(arguments: list[str]) -> int:
    """Compare the page, or write it; return 1 if it was not as it should be."""
    written = page()
    if "--write" in arguments:
        PAGE.write_text(written, encoding="utf-8")
        return 0
    shown = PAGE.read_text(encoding="utf-8")
    if without_numbers(shown) == without_numbers(written):
        return 0
    sys.stdout.write(
        "\n".join(unified_diff(shown.splitlines(), written.splitlines(), str(PAGE), "made", lineterm="")) + "\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
