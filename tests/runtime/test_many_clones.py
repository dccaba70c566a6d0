"""Whether the map of a spec is made by kinds, and what TensorFlow is told meanwhile."""

from __future__ import annotations

import pytest

import grammar
from tests.cli.conftest import GOOD
from tfdeploy.runtime import many_clones


def test_tensorflow_shows_messages_only_if_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook does not ask for them."""
    shown: list[bool] = []
    monkeypatch.setattr(many_clones, "plan_of", lambda *_, verbose, **_more: shown.append(verbose))
    monkeypatch.setattr(many_clones, "why_not", lambda _: "it is small")
    spec = grammar.read("m.tfdeploy", text=GOOD).spec
    assert spec is not None
    reasons = {many_clones.map_by_kinds(spec), many_clones.map_by_kinds(spec, verbose=True)}
    assert (reasons, shown) == ({"it is small"}, [False, True])
