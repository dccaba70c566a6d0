"""One server for all tests of a file."""

from collections.abc import Iterator

import pytest

from tests.lsp.editor import Editor


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """An editor with a server."""
    made = Editor(tmp_path_factory.mktemp("specs"))
    yield made
    assert made.stop() == 0
