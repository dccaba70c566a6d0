"""What TensorFlow writes while it is loaded is shown if it cannot be loaded, and not otherwise."""

from __future__ import annotations

import os

import pytest

from tfdeploy.runtime.start_tensorflow import _silenced


def _fail() -> None:
    with _silenced():
        os.write(2, b"libcudart.so is missing\n")
        raise ImportError


def test_messages_are_shown_if_loading_fails(capfd: pytest.CaptureFixture[str]) -> None:
    """They are written to descriptor 2, past Python, and say why it has failed."""
    with _silenced():
        os.write(2, b"looking for GPUs\n")
    assert capfd.readouterr().err == ""
    with pytest.raises(ImportError):
        _fail()
    assert capfd.readouterr().err == "libcudart.so is missing\n"
