"""The garbage collector is paused while large structures grow."""

from __future__ import annotations

import gc

import pytest

from compiler.process import collector_paused


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_afterwards_as_it_was(*, enabled: bool) -> None:
    """Also after an error, and if it was off before."""
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        with pytest.raises(ValueError, match="an error"), collector_paused():
            raise ValueError("an error")
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
