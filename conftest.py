"""Examples that write files do so in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

# helpers of the tests are shown as fully as the tests themselves where an assertion of theirs fails
pytest.register_assert_rewrite("tests")


@pytest.fixture(autouse=True)
def _examples_leave_nothing_behind(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
