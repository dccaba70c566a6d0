"""Which placements in pieces `verify` leaves out, because something needs a weight as a whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from tests.support import classifier
from tfdeploy.runtime.verify.session import Verification


@pytest.mark.parametrize(
    ("constraint", "regularizer", "optimizer", "is_asked"),
    [
        (None, None, "SGD(0.1)", False),
        ("constraint", None, "SGD(0.1)", True),
        (None, "regularizer", "SGD(0.1)", True),
        (None, None, "Muon(0.1)", True),
    ],
)
def test_pieces_are_tried_if_anything_may_need_the_whole(
    constraint: str | None, regularizer: str | None, optimizer: str, *, is_asked: bool
) -> None:
    """Variables in pieces, and slots in pieces; the reason is what a compilation says of them."""
    asked: list[ir.Spec] = []

    def refuse(spec: ir.Spec) -> None:
        asked.append(spec)
        raise SpecError([Diagnostic("TFD548", f"reason {len(asked)}")])

    verification: Any = SimpleNamespace(
        spec=classifier(optimizer=optimizer), setup=SimpleNamespace(compile=refuse)
    )
    plain = SimpleNamespace(constraint=None, regularizer=None)
    own = SimpleNamespace(constraint=constraint, regularizer=regularizer)
    compiled: Any = SimpleNamespace(weights={"kernel": plain, "bias": own})
    found = Verification._uncut(verification, compiled)
    expected = {"sharded": "reason 1", "replicated, slots sharded": "reason 2"}
    assert found == (expected if is_asked else {})
    targets = [[type(rule.target) for rule in spec.place.rules] for spec in asked]
    wanted = [ir.Sharded, ir.OverClones] if is_asked else []
    assert [kind in own for kind, own in zip(wanted, targets, strict=True)] == [True] * len(wanted)


def test_what_can_be_cut_is_compared() -> None:
    """Nothing is left out if both placements can be compiled."""
    verification: Any = SimpleNamespace(
        spec=classifier(optimizer="Muon(0.1)"), setup=SimpleNamespace(compile=lambda _: None)
    )
    compiled: Any = SimpleNamespace(weights={})
    assert Verification._uncut(verification, compiled) == {}
