"""Ops that write the variables of a graph to a checkpoint and restore them, in TensorFlow's own format.

Every variable is read on its own device; the files are written by the CPU of this process. The name of a
variable in the checkpoint depends neither on mode nor on placement.

What is large is written and restored in slices along the first axis, one at a time, so that a task with
variables holds a copy of one slice beside them, and buffers of the network for it. Small variables are
written together, so that neither they nor the one that writes hold copies of more than `MOST_AT_ONCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.figures import gathered
from compiler.graph.compiled import CompiledGraph
from compiler.graph.variables.nodes import CutVariable, variables_of
from compiler.placement.rules import by_default
from compiler.reasons import Placed, Reason
from compiler.shards import Shard, blocks

MOST_AT_ONCE = 1 << 25
"""The bytes of variables that are written at once, unless a single row is larger."""

SLICES = 4
"""Into how many slices as many bytes of one variable are cut. Each is read, sent and written by itself."""


@frozen
class Region:
    """A part of a tensor of a checkpoint, which is in one variable."""

    begin: tuple[int, ...]  # the first index along each axis of the tensor
    size: tuple[int, ...]  # the length along each axis
    whole: tuple[int, ...]  # the shape of the tensor
    # The first row, and the row after the last, within the variable; None for all of them.
    rows: tuple[int, int] | None = None
    flat: bool = False  # whether the variable is a line of elements, which are its rows

    @property
    def spec(self) -> str:
        """The region as TensorFlow's checkpoints write it: `7 4 0,3:-`; empty for the whole tensor."""
        if self.size == self.whole:
            return ""
        axes = zip(self.begin, self.size, self.whole, strict=True)
        along = ["-" if size == whole else f"{begin},{size}" for begin, size, whole in axes]
        return f"{' '.join(map(str, self.whole))} {':'.join(along)}"

    @property
    def index(self) -> tuple[slice, ...]:
        """The index that takes the region from an array of the whole tensor."""
        return tuple(slice(first, first + size) for first, size in zip(self.begin, self.size, strict=True))


@frozen
class Slice:
    """A region of a tensor, and its value."""

    name: str
    region: Region
    read: tf.Tensor = field(repr=False)  # the value, on the device of its variable
    # Whether all elements are finite, or None if they are no floats.
    finite: tf.Tensor | None = field(default=None, repr=False)


@frozen
class Refill:
    """A region of a tensor that is restored by itself."""

    region: Region
    value: tf.Tensor = field(repr=False)  # its value from the file; another may be fed in its place
    assign: tf.Operation = field(repr=False)
    # What is done after the last region of a variable, if anything.
    ended: tf.Operation | None = field(default=None, repr=False)

    @property
    def ops(self) -> list[tf.Operation]:
        """The ops to run with the value."""
        return [self.assign] if self.ended is None else [self.assign, self.ended]


@frozen
class Group:
    """Slices that are written together."""

    slices: tuple[Slice, ...]
    write: tf.Operation = field(repr=False)  # writes them to files with the prefix `Saving.path`


@frozen
class Saving:
    """The ops for checkpoints of a graph."""

    path: tf.Tensor = field(repr=False)  # a placeholder for the prefix of the files
    save_op: tf.Operation = field(repr=False)  # writes a checkpoint at once
    written: tf.Tensor = field(repr=False)  # the prefix of the files, which exists once they are written
    restore_op: tf.Operation = field(repr=False)  # restores all variables of `CompiledGraph.saved`
    # The values of the variables by the names of `CompiledGraph.saved` and `copies`. `values` fetches them
    # without a copy of the whole beside the variable.
    reads: Mapping[str, tf.Tensor] = field(repr=False)
    restores: Mapping[str, tf.Operation] = field(repr=False)  # the ops that restore each of them
    # The regions in which each of them is restored.
    refills: Mapping[str, tuple[Refill, ...]] = field(repr=False)
    # What is written together, if a checkpoint is written in parts.
    groups: tuple[Group, ...] = field(repr=False)
    parts: tf.Tensor = field(repr=False)  # a placeholder for the prefixes of these parts
    merge: tf.Operation = field(repr=False)  # makes one checkpoint at `path` of the parts

    def saver_def(self) -> Any:
        """Return the SaverDef by which other TensorFlow programs use these ops."""
        return tf.compat.v1.train.SaverDef(
            filename_tensor_name=self.path.name,
            save_tensor_name=self.written.name,
            restore_op_name=self.restore_op.name,
            version=tf.compat.v1.train.SaverDef.V2,
        )

    def values(self, run: Callable[[Any], Any], names: Sequence[str]) -> dict[str, Any]:
        """Return the values of variables as arrays, fetched slice by slice if they are large."""
        slices = self.slices()
        found: dict[str, Any] = run({name: self.reads[name] for name in names if len(slices[name]) == 1})
        for name in names:
            if name not in found:
                whole = np.empty(self.reads[name].shape.as_list(), self.reads[name].dtype.as_numpy_dtype)
                for each in slices[name]:
                    whole[each.region.index] = run(each.read)
                found[name] = whole
        return {name: found[name] for name in names}

    def slices(self) -> dict[str, list[Slice]]:
        """Return the slices of each tensor in their order."""
        return gathered((each.name, each) for group in self.groups for each in group.slices)

    def not_finite(self, run: Callable[[Any], Any]) -> list[str]:
        """Return the names of the tensors that have elements which are not finite."""
        names: dict[str, None] = {}
        for group in self.groups:
            asked = [each for each in group.slices if each.finite is not None]
            found = run([each.finite for each in asked])
            names |= {each.name: None for each, fine in zip(asked, found, strict=True) if not fine}
        return list(names)


def add_saving(compiled: CompiledGraph, *, most: int = MOST_AT_ONCE) -> Saving:
    """Add the ops to a graph.

    After restoring, run `CompiledGraph.after_restore_op`, which makes copies equal. Then those of
    `CompiledGraph.copies` can be restored.
    """
    ledger, plan = compiled.ledger, compiled.plan
    here = by_default("save", plan.topology.first_cpu())
    reads, restores, refills = {}, {}, {}
    slices: list[tuple[Slice, int]] = []
    with compiled.graph.as_default(), tf.name_scope("save/"):
        with ledger.place(here, "save"):
            path = tf.compat.v1.placeholder_with_default(tf.constant("model.ckpt"), (), name="path")
            parts = tf.compat.v1.placeholder(tf.string, (None,), name="parts")
        everything = {**compiled.saved, **compiled.copies}
        for name, saved in everything.items():
            values = list(_values(compiled, name, saved))
            reads[name] = _whole(compiled, name, saved, values, here)
            for variable, value, at in zip(variables_of(saved), values, range(len(values)), strict=True):
                slices += _slices(compiled, name, variable, value, _regions(saved, at, most))
        with ledger.place(here, "save"):
            every = [each for each, _ in slices]
            save_op = _write(path, every, "write")
            with tf.control_dependencies([save_op]):
                written = tf.identity(path, name="written")
            merge = tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=parts, destination_prefix=path, delete_old_dirs=False, name="merge"
            )
            filled = list(_filled(slices, most))
            groups = [
                Group(tuple(each), _write(path, each, f"write_{at}") if len(filled) > 1 else save_op)
                for at, each in enumerate(filled)
            ]
        for name, saved in everything.items():
            restores[name], refills[name] = _restore(compiled, name, saved, path, here, most)
        with ledger.place(here, "save"), tf.control_dependencies([restores[name] for name in compiled.saved]):
            restore_op = tf.no_op(name="restore")
    return Saving(path, save_op, written, restore_op, reads, restores, refills, tuple(groups), parts, merge)


def _beside(compiled: CompiledGraph, name: str, variable: Any) -> Placed:
    home = compiled.ledger.entries[variable.handle.op.name].placed.device
    return Placed(home, Reason(name, "follows"))


def _regions(saved: Any, number: int, most: int) -> list[Region]:
    """Return the regions of a tensor in which one of its variables is written, slices if over `most`."""
    variable = variables_of(saved)[number]
    size, whole = tuple(variable.shape.as_list()), tuple(saved.shape.as_list())
    begin = [0] * len(whole)
    if isinstance(saved, CutVariable):
        if saved.shards[number].flat:
            return list(_flat_regions(saved.shards[number], max(1, most // variable.dtype.size)))
        begin[saved.shards[number].axis] = saved.shards[number].start
    row = max(1, prod(size[1:]) * variable.dtype.size)
    rows = max(1, most // row)
    if not size or size[0] <= rows:
        return [Region(tuple(begin), size, whole)]
    rows = max(1, rows // SLICES)
    return [
        Region(
            (begin[0] + first, *begin[1:]),
            (min(rows, size[0] - first), *size[1:]),
            whole,
            (first, min(first + rows, size[0])),
        )
        for first in range(0, size[0], rows)
    ]


def _flat_regions(shard: Shard, most: int) -> Iterator[Region]:
    """Yield the regions that make up a range of a tensor's elements, each of `most` elements."""
    done = 0
    for start in range(shard.start, shard.stop, most):
        for begin, size in blocks(shard.whole, start, min(start + most, shard.stop)):
            count = prod(size)
            rows = (done, done + count) if count < shard.size else None
            yield Region(begin, size, shard.whole, rows, flat=True)
            done += count


def _values(compiled: CompiledGraph, name: str, saved: Any) -> Iterator[tf.Tensor]:
    for variable in variables_of(saved):
        with compiled.ledger.place(_beside(compiled, name, variable), "save"), tf.name_scope(f"save/{name}/"):
            yield tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype, name="read")


def _whole(
    compiled: CompiledGraph, name: str, saved: Any, values: Sequence[tf.Tensor], here: Placed
) -> tf.Tensor:
    if not isinstance(saved, CutVariable):
        return values[0]
    with compiled.ledger.place(here, "save"), tf.name_scope(f"save/{name}/"):
        joined = tf.concat(list(values), saved.shards[0].axis, name="whole")
        return tf.reshape(joined, saved.shape) if saved.shards[0].flat else joined


def _slices(
    compiled: CompiledGraph, name: str, variable: Any, value: tf.Tensor, regions: Sequence[Region]
) -> Iterator[tuple[Slice, int]]:
    """Yield the regions of a variable, made on its device, with their bytes."""
    for region in regions:
        with compiled.ledger.place(_beside(compiled, name, variable), "save"), tf.name_scope(f"save/{name}/"):
            part = value if region.rows is None else _rows(variable, value, *region.rows)
            part = tf.reshape(part, region.size) if region.flat else part
            finite = None
            if variable.dtype.is_floating:
                finite = tf.reduce_all(tf.math.is_finite(part), name="finite")
        yield Slice(name, region, part, finite), prod(region.size) * variable.dtype.size


def _rows(variable: Any, value: tf.Tensor, first: int, stop: int) -> tf.Tensor:
    """Return some rows of a variable; `value` is all of it, which is copied if it is in the mode for rows."""
    if changes_by_rows(variable):
        return tf.raw_ops.ResourceGather(
            resource=variable.handle, indices=tf.range(first, stop), dtype=variable.dtype, name="rows"
        )
    return value[first:stop]


def changes_by_rows(variable: Any) -> bool:
    """Whether ops of the graph look up or write rows of a variable, so that a read of the whole copies it."""
    kinds = {each.type for each in variable.handle.consumers()}
    return any(each == "ResourceGather" or each.startswith("ResourceScatter") for each in kinds)


def _filled(slices: Sequence[tuple[Slice, int]], most: int) -> Iterator[list[Slice]]:
    """Yield variables in groups of at most `most` bytes, and what is a part of a variable alone."""
    group: list[Slice] = []
    total = 0
    for each, size in slices:
        alone = each.region.rows is not None
        if group and (alone or total + size > most):
            yield group
            group, total = [], 0
        if alone:
            yield [each]
        else:
            group.append(each)
            total += size
    if group:
        yield group


def _write(path: tf.Tensor, slices: Sequence[Slice], name: str) -> tf.Operation:
    return tf.raw_ops.SaveV2(
        prefix=path,
        tensor_names=tf.constant([each.name for each in slices], name=f"{name}/names"),
        shape_and_slices=tf.constant([each.region.spec for each in slices], name=f"{name}/slices"),
        tensors=[each.read for each in slices],
        name=name,
    )


def _restore(
    compiled: CompiledGraph, name: str, saved: Any, path: tf.Tensor, reader: Placed, most: int
) -> tuple[tf.Operation, tuple[Refill, ...]]:
    """Return the op that restores a tensor: each of its variables, region by region; and these regions."""
    refills: list[Refill] = []
    for number, variable in enumerate(variables_of(saved)):
        beside = _beside(compiled, name, variable)
        for region in _regions(saved, number, most):
            with tf.name_scope(f"save/{name}/"):
                after = [refills[-1].assign] if refills and region.rows is not None else []
                with compiled.ledger.place(reader, "save"), tf.control_dependencies(after):
                    (value,) = tf.raw_ops.RestoreV2(
                        prefix=path,
                        tensor_names=[name],
                        shape_and_slices=[region.spec],
                        dtypes=[variable.dtype],
                        name="restored",
                    )
                with compiled.ledger.place(beside, "save"):
                    value.set_shape(region.size)
                    given = tf.reshape(value, [-1]) if region.flat else value
                    refills.append(Refill(region, value, _assign(variable, given, region)))
        if refills[-1].region.rows is not None and not changes_by_rows(variable):
            with compiled.ledger.place(beside, "save"), tf.control_dependencies([refills[-1].assign]):
                # assigning rows has put it into the mode in which reads and updates copy it
                shared = tf.raw_ops.DisableCopyOnRead(resource=variable.handle, name=f"save/{name}/shared")
                refills[-1] = evolve(refills[-1], ended=shared)
    done = [op for each in refills for op in each.ops]
    if len(done) == 1:
        return done[0], tuple(refills)
    with compiled.ledger.place(reader, "save"), tf.control_dependencies(done):
        return tf.no_op(name=f"save/{name}/assigned"), tuple(refills)


def _assign(variable: Any, value: tf.Tensor, region: Region) -> tf.Operation:
    if region.rows is None:
        return tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value, name="assign")
    begin, end = ([each] for each in region.rows)
    return tf.raw_ops.ResourceStridedSliceAssign(
        ref=variable.handle, begin=begin, end=end, strides=[1], value=value, name="assign"
    )
