"""The command, as for the tests of `tests/cli`."""

from tests.cli.conftest import command

__all__ = ["command"]
