"""Sums that are written into a step: what they come to, where they are made, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from compiler.suggest.steps.sums import ALGORITHMS, Reduction, Value, Writer, sum_all
from compiler.time.work import Signature, TimedOp
from compiler.topology import Device

CPU = Device("cpu", 0, ordinal=0)
GPUS = tuple(Device("gpu", at, ordinal=1 + at) for at in range(6))
FAR_GPUS = tuple(Device("gpu", at % 2, "worker", at // 2, ordinal=at) for at in range(6))


class Computing(Writer):
    """A writer that also computes what its ops make.

    Attributes:
        arrays: What is in each tensor, by its name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}

    def given(self, name: str, device: Device, shape: tuple[int, ...], clone: int) -> Value:
        """Return a gradient with numbers of its own, which an op of a clone has made.

        Args:
            name: The name of its weight.
            device: The device of the clone.
            shape: The shape.
            clone: The number of the clone.
        """
        made = TimedOp(f"clone_{clone}/{name}", Signature("Grad", ()), device, 0, 0, clone=clone)
        value = Value(self.add(made), f"{made.name}:0", device, "float32", shape, 4)
        self.arrays[value.tensor] = 100.0 ** np.arange(prod(shape)).reshape(shape) * (clone + 1) + clone
        return value

    def make(
        self,
        kind: str,
        name: str,
        device: Device,
        inputs: Sequence[Value],
        shape: tuple[int, ...],
        **more: Any,
    ) -> Value:
        """Write an op, and compute its result."""
        value = super().make(kind, name, device, inputs, shape, **more)
        taken = [self.arrays[each.tensor] for each in inputs]
        made = taken[0]
        if kind == "AddN":
            made = np.sum(taken, axis=0)
        elif kind == "ConcatV2":
            made = np.concatenate(taken)
        self.arrays[value.tensor] = np.reshape(made, shape)
        return value

    def split(
        self, name: str, value: Value, shapes: Sequence[tuple[int, ...]], clone: int | None = None
    ) -> list[Value]:
        """Write an op that cuts a tensor, and compute its parts."""
        parts = super().split(name, value, shapes, clone)
        ends = np.cumsum([each[0] for each in shapes])
        assert ends[-1] == value.shape[0]
        self.arrays |= {
            each.tensor: array
            for each, array in zip(parts, np.split(self.arrays[value.tensor], ends[:-1]), strict=True)
        }
        return parts


def reductions_of(
    writer: Computing,
    shapes: Sequence[tuple[int, ...]],
    devices: Sequence[Device],
    destinations: Sequence[Device],
) -> list[Reduction]:
    """Return the sums of a gradient of each shape, of which each device makes one."""
    return [
        Reduction(
            f"w{number}",
            tuple(writer.given(f"w{number}", device, shape, rank) for rank, device in enumerate(devices)),
            tuple(destinations),
            number,
        )
        for number, shape in enumerate(shapes)
    ]


def adders(writer: Writer, kind: str = "AddN") -> list[str]:
    """Return the devices of the ops of a kind, in the order in which these are written."""
    return [each.device.ref for each in writer.ops if each.signature.type == kind]


SHAPES = [(2, 3), (1,), (4,), (3, 1, 2)]


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((each, {}) for each in ALGORITHMS),
        ("hierarchical", {"size": 3}),
        ("shuffle", {"shards": 2}),
        ("shuffle", {"shards": 1}),
    ],
)
def test_every_place_gets_the_sum(name: str, options: Mapping[str, int], copied: bool) -> None:
    """Of values of any shape, with fewer elements than clones too, in buckets or not, and in their shape."""
    for count, pack in product((1, 2, 3, 5, 6), (None, 20)):
        writer, devices = Computing(), GPUS[:count]
        sums = reductions_of(writer, SHAPES, devices, devices if copied else (CPU,))
        totals = sum_all(writer, sums, ALGORITHMS[name], options, pack)
        for each, found in zip(sums, totals, strict=True):
            wanted = sum(writer.arrays[value.tensor] for value in each.values)
            assert [value.device for value in found] == list(each.destinations)
            for value in found:
                assert value.shape == each.values[0].shape
                assert (writer.arrays[value.tensor] == wanted).all()


@pytest.mark.parametrize(
    ("name", "options", "copied", "number", "wanted"),
    [
        ("add_n", {}, False, 0, ["cpu[0]"]),
        ("add_n", {}, True, 0, ["gpu[0]"]),
        ("tree", {}, False, 0, ["gpu[0]", "gpu[2]", "gpu[0]", "cpu[0]"]),
        ("tree", {}, True, 0, ["gpu[0]", "gpu[2]", "gpu[0]", "gpu[0]"]),
        ("hierarchical", {}, False, 0, ["gpu[0]", "gpu[2]", "cpu[0]"]),
        ("hierarchical", {}, True, 0, ["gpu[0]", "gpu[2]", "gpu[0]"]),
        ("hierarchical", {}, True, 1, ["gpu[1]", "gpu[3]", "gpu[3]"]),
        ("hierarchical", {"size": 4}, True, 2, ["gpu[2]", "gpu[2]"]),
        ("hierarchical", {"size": 5}, True, 2, ["gpu[2]"]),
        ("shuffle", {}, True, 0, ["gpu[0]", "gpu[1]", "gpu[2]", "gpu[3]", "gpu[4]"]),
        ("shuffle", {}, True, 3, ["gpu[3]", "gpu[4]", "gpu[0]", "gpu[1]", "gpu[2]"]),
        ("shuffle", {"shards": 2}, True, 4, ["gpu[4]", "gpu[0]"]),
        ("ring", {}, True, 0, [f"gpu[{at}]" for at in range(5)] * 4),
    ],
)
def test_sums_are_made_where_the_algorithm_has_them(
    name: str, options: Mapping[str, int], copied: bool, number: int, wanted: list[str]
) -> None:
    """Of the values of five clones; the work of hierarchies and ranges moves on with each weight."""
    writer, devices = Computing(), GPUS[:5]
    (only,) = reductions_of(writer, [(10,)], devices, devices if copied else (CPU,))
    ALGORITHMS[name](writer, evolve(only, number=number), options)
    assert adders(writer) == wanted


def test_a_ring_copies_no_more_than_what_is_missing() -> None:
    """Each of five clones lacks four ranges of the sum, and gets each of them once."""
    writer = Computing()
    (only,) = reductions_of(writer, [(10,)], GPUS[:5], GPUS[:5])
    ALGORITHMS["ring"](writer, only, {})
    assert adders(writer, "Identity") == [f"gpu[{at}]" for at in range(5)] * 4


def test_a_hierarchy_sums_in_each_process_first() -> None:
    """Of three workers with two devices each, and each passes the whole sum on to its neighbour."""
    writer = Computing()
    (only,) = reductions_of(writer, [(2,)], FAR_GPUS, FAR_GPUS)
    ALGORITHMS["hierarchical"](writer, evolve(only, number=1), {})
    assert adders(writer) == [*(f"worker[{at}].gpu[1]" for at in range(3)), "worker[1].gpu[1]"]
    copies = [writer.ops[each[0].source].device.ref for each in writer.arrows if each][4:]
    assert adders(writer, "Identity") == [
        f"worker[{worker}].gpu[{gpu}]" for worker, gpu in ((0, 1), (0, 0), (1, 0), (2, 1), (2, 0))
    ]
    assert copies == [f"worker[{worker}].gpu[1]" for worker in (1, 0, 1, 1, 2)]


@pytest.mark.parametrize(
    ("pack", "wanted"),
    [
        (1, [4, 1, 3, 2]),
        (12, [4, 3, 1 + 2]),  # what is as large as a bucket is alone, and others go on filling theirs
        (15, [4, 1, 3, 2]),
        (16, [4, 1 + 3, 2]),
        (20, [4 + 1, 3 + 2]),
        (100, [4 + 1 + 3 + 2]),
    ],
)
def test_values_are_packed_until_a_bucket_is_full(pack: int, wanted: list[int]) -> None:
    """Values of four, one, three and two elements of four bytes."""
    writer = Computing()
    sums = reductions_of(writer, [(4,), (1,), (3,), (2,)], GPUS[:2], [CPU])
    sum_all(writer, sums, ALGORITHMS["add_n"], {}, pack)
    found = [each.signature.inputs for each in writer.ops if each.signature.type == "AddN"]
    assert found == [(f"float32[{size}]",) * 2 for size in wanted]


def test_only_like_values_share_a_bucket() -> None:
    """Those of another type, or whose sum is needed elsewhere, have a bucket of their own."""
    writer = Computing()
    sums = reductions_of(writer, [(2,)] * 4, GPUS[:2], [CPU])
    sums[1] = evolve(sums[1], destinations=(GPUS[0],))
    sums[2] = evolve(sums[2], values=tuple(evolve(each, dtype="float16", item=2) for each in sums[2].values))
    totals = sum_all(writer, sums, ALGORITHMS["add_n"], {}, 100)
    added = [each.signature.inputs[0] for each in writer.ops if each.signature.type == "AddN"]
    assert added == ["float32[2]", "float16[2]", "float32[4]"]
    assert [each.device for (each,) in totals] == [CPU, GPUS[0], CPU, CPU]


def test_what_a_written_op_costs() -> None:
    """It reads its inputs and constants and writes its result, unless it only passes on what it gets."""
    writer = Computing()
    left, right = (writer.given(name, GPUS[0], (2, 3), 0) for name in "ab")
    assert (left.bytes, left.text) == (24, "float32[2,3]")
    joined = writer.make("ConcatV2", "a/b/c", CPU, [left, right], (4, 3), constants=((), (2,)), clone=1)
    op = writer.ops[joined.op]
    assert (op.name, op.scope, op.device, op.clone) == ("a/b/c", "a/b", CPU, 1)
    assert op.signature == Signature("ConcatV2", ("float32[2,3]", "float32[2,3]", "int32[]", "int32[2]"))
    assert (op.flops, op.bytes) == (12, 24 + 24 + 4 + 8 + 48)
    assert [(each.source, each.target, each.tensor, each.bytes) for each in writer.arrows[joined.op]] == [
        (0, 4, "clone_0/a:0", 24),
        (1, 4, "clone_0/b:0", 24),
        (2, 4, "a/b/c/0:0", 4),
        (3, 4, "a/b/c/1:0", 8),
    ]
    for number, text in ((2, "int32[]"), (3, "int32[2]")):
        constant = writer.ops[number]
        assert constant.signature == Signature("Const", (text,))
        assert (constant.flops, constant.bytes, constant.clone, constant.scope) == (0, 0, 1, "a/b")
        assert (constant.device, writer.arrows[number]) == (CPU, [])
    passed = writer.reshape("flat", joined, (12,))
    assert (writer.ops[passed.op].flops, writer.ops[passed.op].bytes) == (0, 0)
    assert writer.ops[passed.op].signature.inputs == ("float32[4,3]", "int32[1]")
    parts = writer.split("cut", passed, [(5,), (7,)], clone=2)
    assert [(each.tensor, each.shape, each.op) for each in parts] == [
        ("cut:0", (5,), parts[0].op),
        ("cut:1", (7,), parts[0].op),
    ]
    cut = writer.ops[parts[0].op]
    assert (cut.clone, cut.signature.inputs) == (2, ("float32[12]", "int32[2]", "int32[]"))
    less = writer.make("StridedSlice", "less", CPU, [passed], (12,), work=3)
    assert (writer.ops[less.op].flops, writer.ops[less.op].bytes) == (3, 48 + 48)
    writer.wait(0, less.op)
    assert [(each.source, each.tensor, each.bytes) for each in writer.arrows[0]] == [(less.op, "", 0)]
