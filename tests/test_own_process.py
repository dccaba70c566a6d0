"""What differs in the process of a command from a program that uses tfdeploy as a library."""

import gc

import pytest

from tfdeploy import own_process


@pytest.mark.parametrize("owned", [True, False])
def test_only_a_command_keeps_everything(owned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that goes on still has its memory freed."""
    monkeypatch.setattr(own_process, "_owned", owned)
    assert gc.isenabled()
    try:
        own_process.keep_everything()
        assert gc.isenabled() != owned
    finally:
        gc.enable()
