"""The processes in which pytest-xdist runs tests side by side, forked from one that has imported the tests.

Each would otherwise import TensorFlow and all tests for itself, and, after a change, compile the tests.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from execnet.gateway_base import MainThreadOnlyExecModel
from hypothesis.internal.conjecture.providers import _get_local_constants

from tests import forked


@contextmanager
def forked_workers(config: pytest.Config) -> Iterator[None]:
    """Let pytest-xdist fork the workers that it starts in the block.

    Args:
        config: Says which tests are wanted.
    """
    importing = _Importing()
    # Whole files, since no test is made that a part of a file could name.
    files = [each.partition("::")[0] for each in map(str, config.invocation_params.args)]
    arguments = [*files, "-n0", "--dist=no", "--collect-only", "--quiet"]

    def load() -> None:
        with forked.to_be_forked(), redirect_stdout(StringIO()):
            pytest.main(arguments, plugins=[importing])
            _get_local_constants()  # as Hypothesis would in each worker, when it has collected the tests
        if importing.incomplete:
            _forget_files(config.rootpath)
        forked.forget_the_tests()

    forked.fork_nursery(load)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MainThreadOnlyExecModel, "subprocess", forked.AS_SUBPROCESS)
        yield


class _Importing:
    """A plugin of pytest with which it imports files of tests and makes no tests of them.

    Attributes:
        incomplete: Whether a file has ended its import with an exception.
    """

    def __init__(self) -> None:
        self.incomplete = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self) -> list[pytest.Item]:
        """Make nothing of a name in a file."""
        return []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what has not been imported to its end."""
        self.incomplete |= not report.passed


def _forget_files(folder: Path) -> None:
    """Forget files of tests, so that workers import them again: pytest leaves half of one that has failed."""
    for name, module in [*sys.modules.items()]:
        file = Path(getattr(module, "__file__", None) or "")
        if file.is_relative_to(folder) and (file.name == "conftest.py" or file.name.startswith("test_")):
            del sys.modules[name]
