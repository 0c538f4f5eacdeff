"""Examples that write files do so in a folder of their own."""

from __future__ import annotations

import pytest

# helpers of the tests are shown as fully as the tests themselves where an assertion of theirs fails
pytest.register_assert_rewrite("tests")


@pytest.fixture(autouse=True)
def _examples_leave_nothing_behind(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, pytest.DoctestItem):  # thousands of other tests need no folder
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
