"""The places of ops in a tower, beside which table they run, and small weights that come with its rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from compiler.graph.stamp.lookups import Lookup
from compiler.graph.stamp.places import Layout, TowerPlaces
from compiler.graph.stamp.sources import Rider
from compiler.plan import Tower
from compiler.reasons import Placed, Reason
from compiler.step.record import Tensor
from compiler.topology import Device
from dsl import ir


@pytest.fixture
def layout() -> Layout:
    """A look-up of converted rows, whose conversion runs after the gather, and a product."""
    template: Any = SimpleNamespace(
        follows={"of_cast": "cast", "of_gather": "gather", "of_product": "product", "of_lost": "lost"}
    )
    usage: Any = SimpleNamespace(
        lookups={"other": Lookup("v", "other", "ids"), "gather": Lookup("w", "gather", "ids", "cast")},
        gone={"cast", "lost"},
        at_table={"gather": "w", "other": "v"},
    )
    rulebook: Any = None
    return Layout(template, usage, rulebook)


@pytest.mark.parametrize(
    ("inner", "forward", "table"),
    [
        ("product", None, None),
        ("gather", None, "w"),
        ("of_product", "product", None),
        ("of_gather", "gather", "w"),
        ("of_cast", "gather", "w"),  # the conversion itself is gone
        ("of_lost", "lost", None),
        ("other", None, "v"),
    ],
)
def test_a_gradient_follows_what_is_left_of_its_op(
    layout: Layout, inner: str, forward: str | None, table: str | None
) -> None:
    """A conversion of a whole table is gone, and its gather stands for it."""
    assert layout.forward(inner) == forward
    assert layout.table_of(inner) == table


CPU, GPU, TABLE, RULED = (Device("cpu", 0), Device("gpu", 0), Device("cpu", 1), Device("gpu", 1))
OWN = Reason("clones -> gpu[0]", "default")
HOME = Reason("variables -> cpu[1]", "default")


def places(own: Device, ruled: dict[str, Reason]) -> TowerPlaces:
    """Return the places in a tower on a device, of which rules decide for some ops.

    A table is on another device, and the rows of a second one, which is in pieces, are put together.
    """
    template: Any = SimpleNamespace(follows={"of_gather": "gather"})
    usage: Any = SimpleNamespace(
        lookups={}, gone=(), at_table={"gather": "table", "rows": "cut"}, strings={"split"}
    )
    rulebook: Any = SimpleNamespace(
        decide_op=lambda inner, _, forward: ruled.get(inner) or ruled.get(forward),
        op_device=lambda *_: RULED,
        strings=lambda _: Placed(CPU, Reason("strings -> cpu[0]", "default")),
    )
    tower = Tower(index=1, scope="clone_1", devices=(own,), batch=4, reason=OWN)
    return TowerPlaces(Layout(template, usage, rulebook), tower, {"table": Placed(TABLE, HOME)})


@pytest.mark.parametrize(
    ("inner", "own", "device", "reason"),
    [
        ("product", GPU, GPU, OWN),
        ("split", GPU, CPU, Reason("strings -> cpu[0]", "default")),  # for which GPUs have no kernels
        ("split", CPU, CPU, OWN),
        ("gather", GPU, TABLE, Reason("table", "follows", cause=HOME)),
        ("rows", GPU, GPU, OWN),
        (
            "of_gather",
            GPU,
            TABLE,
            Reason("gather", "follows", cause=Reason("table", "follows", cause=HOME)),
        ),
    ],
)
def test_an_op_is_with_its_table_or_with_its_tower(
    inner: str, own: Device, device: Device, reason: Reason
) -> None:
    """If no rule decides."""
    assert places(own, {}).of(inner) == Placed(device, reason)


def test_a_rule_decides_for_all_but_lookups() -> None:
    """Those stay with their table, and say which rules they have beaten."""
    first, last = (ir.Rule(ir.Selector("ops", each), ir.DeviceSet(())) for each in "ab")
    rule = Reason("ops -> gpu[1]", "rule", last, (first,))
    found = places(GPU, dict.fromkeys(("gather", "product", "split"), rule))
    assert [found.of(each) for each in ("product", "split")] == [Placed(RULED, rule)] * 2
    assert (found.of("gather").device, found.of("gather").reason.beaten) == (TABLE, (first, last))
    assert found.of("of_gather").reason.beaten == (first, last)
    default = places(GPU, {"gather": Reason("ops -> gpu[1]", "default")})
    assert default.of("gather").reason.beaten == ()


def test_what_comes_in_through_a_port_is_made_where_it_comes_from() -> None:
    """Other tensors are made where their op is, whichever of its outputs they are."""
    found = places(GPU, {})
    found.put_port("x", CPU)
    assert [found.made_at(each) for each in ("x", "x:1", "product:1", "gather")] == [CPU, CPU, GPU, TABLE]
    assert found.own == Placed(GPU, OWN)


@pytest.mark.parametrize(
    ("shape", "dtype", "small"),
    [
        ((), "float32", True),
        ((128, 128), "float32", True),
        ((16385,), "float32", False),
        ((256, 128), "float16", True),
        ((3, 10923), "float16", False),
    ],
)
def test_a_weight_of_64_kib_is_small(shape: tuple[int, ...], dtype: str, *, small: bool) -> None:
    """A larger one is sent by itself, whatever its shape and its type are."""
    rider = Rider(
        "w", Tensor("w/read", dtype, shape), "w/sent", Placed(Device("cpu", 0), Reason("w", "default"))
    )
    assert rider.is_small == small
