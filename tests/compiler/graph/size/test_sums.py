"""The ops of a sum, counted without writing them, are those that the aggregation writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve

from compiler.graph.size.sums import WRITTEN, Sum, bytes_of_sums, written_for
from compiler.graph.size.written import Written
from compiler.step.sums import AGGREGATIONS, reduce_all
from dsl import ir
from tests.compiler.step.sums.test_sums import ALGORITHMS, SPARSE, Bench, _id, dense, rows

SCOPE = "aggregate/"
SHAPES = ((), (3,), (40, 2))  # one element, fewer than there are clones, and more


def written(bench: Bench) -> Written:
    """Return the ops of all sums of a graph, and their inputs that are made by other ones of these."""
    ops = [op for op in bench.graph.get_operations() if op.name.startswith(SCOPE)]
    inputs = [each for op in ops for each in op.inputs if each.op.name.startswith(SCOPE)]
    return Written(len(ops), len(inputs))


def sum_of(bench: Bench, shape: Any, *, everywhere: bool, owner: int | None = None) -> Sum:
    """Return what is known of a sum before it is written."""
    homes = tuple(each.device for each in bench.homes)
    needed = homes if everywhere else (homes[-1 if owner is None else owner],)
    elements = None if shape is None else int(np.prod(shape))
    size = None if elements is None else 4 * elements
    return Sum("weight", elements, size, "float32", homes, needed, owner)


@pytest.mark.parametrize("everywhere", [False, True], ids=["one-place", "every-clone"])
@pytest.mark.parametrize("call", ALGORITHMS, ids=_id)
def test_ops_of_tensors_are_counted(call: ir.Call, *, everywhere: bool) -> None:
    """Also of values with fewer elements than clones, and if two clones are on each device.

    Groups and local sums come on top of what is counted; those of a ring or a shuffle are counted exactly.
    """
    for clones, devices in ((1, 1), (2, 2), (5, 5), (8, 8), (8, 4)):
        for shape in SHAPES:
            bench = Bench(clones, devices)
            arrays = [np.ones(shape, np.float32)] * clones
            bench.sums(call, dense, arrays, everywhere=everywhere)
            found = written_for(sum_of(bench, shape, everywhere=everywhere), call)
            real = written(bench)
            if call.name in ("ring", "shuffle"):
                assert found == real
            elif clones == devices and call.name in ("add_n", "tree"):
                assert found.ops == real.ops
            assert found.ops <= real.ops
            assert found.inputs <= real.inputs
            assert found.ops > 0 or clones == 1


@pytest.mark.parametrize("everywhere", [False, True], ids=["one-place", "every-clone"])
@pytest.mark.parametrize("call", SPARSE, ids=_id)
def test_ops_of_rows_are_counted(call: ir.Call, *, everywhere: bool) -> None:
    """Rows are as many tensors again, and their pieces do not depend on how many there are."""
    for clones in (2, 5):
        bench = Bench(clones)
        pair = np.ones((3, 2), np.float32), np.array([4, 1, 4], np.int32)
        bench.sums(call, rows, [pair] * clones, everywhere=everywhere)
        found = written_for(sum_of(bench, None, everywhere=everywhere), call)
        if call.name in ("ring", "shuffle", "add_n", "tree"):
            assert found.ops == written(bench).ops
        assert found.ops <= written(bench).ops
        assert 0 < found.inputs <= written(bench).inputs


@pytest.mark.parametrize("call", SPARSE, ids=_id)
def test_ops_of_an_owned_part_are_counted(call: ir.Call) -> None:
    """If a clone alone needs the sum of its part, a ring passes it on, and a shuffle adds it at once."""
    for owner in (0, 2):
        bench = Bench(5)
        bench.sums(call, dense, [np.ones((6,), np.float32)] * 5, everywhere=False, owner=owner)
        found = written_for(sum_of(bench, (6,), everywhere=False, owner=owner), call)
        assert found.ops <= written(bench).ops
        assert found.inputs <= written(bench).inputs
        if call.name in ("ring", "shuffle"):
            assert found == written(bench)


@pytest.mark.parametrize("everywhere", [False, True], ids=["one-place", "every-clone"])
@pytest.mark.parametrize("pack", [100, 1000, None], ids=["some", "all", "none"])
def test_ops_of_packed_sums_are_counted(pack: int | None, *, everywhere: bool) -> None:
    """Buckets are the same, with what joins and parts their members; the bytes are fewer, but not by half."""
    bench = Bench(6)
    shapes = [(3,), (40, 2), (2, 2), (), (5, 1)]
    places = bench.homes if everywhere else bench.homes[-1:]
    sums, reductions = [], []
    with bench:
        for at, shape in enumerate(shapes):
            values = [dense(np.ones(shape, np.float32)) for _ in bench.homes]
            name = f"g{at}"
            reductions.append(bench.reduction(name, values, places, at))
            sums.append(evolve(sum_of(bench, shape, everywhere=everywhere), name=name))
        update = evolve(bench.plan.update, aggregate=ir.Call("ring"), pack=pack)
        reduce_all(reductions, update)
        bench.made([])
    ops, size = bytes_of_sums(sums, update, lambda each: len(bench.plan.tensorflow_device(each)))
    nodes = [each for each in bench.graph.as_graph_def().node if each.name.startswith(SCOPE)]
    real = sum(each.ByteSize() for each in nodes)
    assert ops == len(nodes)
    assert size <= real <= 2 * size


def test_every_aggregation_is_counted() -> None:
    """An aggregation that is added has to say what it writes."""
    assert {*WRITTEN} == {*AGGREGATIONS}
