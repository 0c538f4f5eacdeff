"""Examples that write files do so in a folder of their own."""

from __future__ import annotations

import pytest

# helpers of the tests are shown as fully as the tests themselves where an assertion of theirs fails
pytest.register_assert_rewrite("tests")

LONG = ("tests/theorems/", "tests/distributed/", "tests/test_examples.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first, so that no worker is left with one when the others have finished."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.fixture(autouse=True)
def _examples_leave_nothing_behind(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, pytest.DoctestItem):  # thousands of other tests need no folder
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
