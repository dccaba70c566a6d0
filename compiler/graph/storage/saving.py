"""Ops that write the variables of a graph to a checkpoint and restore them, in TensorFlow's own format.

Every variable is read on its own device; the files are written by the CPU of this process. The name of a
variable in the checkpoint depends neither on mode nor on placement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.variables.cut_variable import CutVariable, variables_of
from compiler.reasons import Placed, Reason
from compiler.shards import Shard

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph


@frozen
class Slice:
    """A part of a tensor of a checkpoint that is one variable of the graph.

    Attributes:
        spec: Its place in the tensor, as TensorFlow's checkpoints write it; empty for the whole tensor.
        read: Its value, on the device of the variable.
    """

    spec: str
    read: tf.Tensor = field(repr=False)


@frozen
class Saving:
    """The ops for checkpoints of a graph.

    Attributes:
        path: A placeholder for the prefix of the files.
        save_op: Writes a checkpoint.
        written: The prefix of the files, which exists once they are written.
        restore_op: Restores all variables.
        reads: The values of the variables by the names of `CompiledGraph.saved`.
        restores: The ops that restore each of them.
        finite: For each variable of floats, whether all of them are finite.
        slices: The parts of each tensor, one for each variable that it consists of.
    """

    path: tf.Tensor = field(repr=False)
    save_op: tf.Operation = field(repr=False)
    written: tf.Tensor = field(repr=False)
    restore_op: tf.Operation = field(repr=False)
    reads: Mapping[str, tf.Tensor] = field(repr=False)
    restores: Mapping[str, tf.Operation] = field(repr=False)
    finite: Mapping[str, tf.Tensor] = field(repr=False)
    slices: Mapping[str, tuple[Slice, ...]] = field(repr=False)

    def saver_def(self) -> Any:
        """Return the SaverDef by which other TensorFlow programs use these ops."""
        return tf.compat.v1.train.SaverDef(
            filename_tensor_name=self.path.name,
            save_tensor_name=self.written.name,
            restore_op_name=self.restore_op.name,
            version=tf.compat.v1.train.SaverDef.V2,
        )


def add_saving(compiled: CompiledGraph) -> Saving:
    """Add the ops to a graph.

    After restoring, run `CompiledGraph.after_restore_op`, which makes copies equal.
    """
    ledger, plan = compiled.ledger, compiled.plan
    writer = plan.topology.first_cpu()
    here = Placed(writer, Reason(f"save -> {writer.ref}", "default"))
    slices: dict[str, tuple[Slice, ...]] = {}
    reads, finite, restores = {}, {}, {}
    with compiled.graph.as_default(), tf.name_scope("save/"):
        with ledger.place(here, "save"):
            path = tf.compat.v1.placeholder_with_default(tf.constant("model.ckpt"), (), name="path")
        for name, saved in compiled.saved.items():
            slices[name] = tuple(_slices(compiled, name, saved))
            reads[name] = _whole(compiled, name, saved, slices[name], here)
            if saved.dtype.is_floating:
                finite[name] = _finite(compiled, name, saved, slices[name])
        with ledger.place(here, "save"):
            every = [(name, each) for name, found in slices.items() for each in found]
            save_op = tf.raw_ops.SaveV2(
                prefix=path,
                tensor_names=tf.constant([name for name, _ in every], name="names"),
                shape_and_slices=tf.constant([each.spec for _, each in every], name="slices"),
                tensors=[each.read for _, each in every],
                name="write",
            )
            with tf.control_dependencies([save_op]):
                written = tf.identity(path, name="written")
        for name, saved in compiled.saved.items():
            restores[name] = _restore(compiled, name, saved, path, here)
        with ledger.place(here, "save"), tf.control_dependencies(list(restores.values())):
            restore_op = tf.no_op(name="restore")
    return Saving(path, save_op, written, restore_op, reads, restores, finite, slices)


def _beside(compiled: CompiledGraph, name: str, variable: Any) -> Placed:
    home = compiled.ledger.entries[variable.handle.op.name].placed.device
    return Placed(home, Reason(name, "follows"))


def _slices(compiled: CompiledGraph, name: str, saved: Any) -> Iterator[Slice]:
    """Yield the slices of a tensor, each read on the device of its variable."""
    specs = [""]
    if isinstance(saved, CutVariable):
        specs = [slice_spec(each) for each in saved.shards]
    for at, (variable, spec) in enumerate(zip(variables_of(saved), specs, strict=True)):
        scope = f"save/{name}/shard_{at}/" if spec else f"save/{name}/"
        with compiled.ledger.place(_beside(compiled, name, variable), "save"), tf.name_scope(scope):
            read = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype, name="read")
        yield Slice(spec, read)


def slice_spec(shard: Shard) -> str:
    """Return the place of a piece in a whole tensor, as TensorFlow's checkpoints have it: `7 4 0,3:-`."""
    along = [f"{shard.start},{shard.size}" if at == shard.axis else "-" for at in range(len(shard.whole))]
    return f"{' '.join(map(str, shard.whole))} {':'.join(along)}"


def _whole(
    compiled: CompiledGraph, name: str, saved: Any, slices: Sequence[Slice], here: Placed
) -> tf.Tensor:
    if not isinstance(saved, CutVariable):
        return slices[0].read
    with compiled.ledger.place(here, "save"), tf.name_scope(f"save/{name}/"):
        return tf.concat([each.read for each in slices], saved.shards[0].axis, name="whole")


def _finite(compiled: CompiledGraph, name: str, saved: Any, slices: Sequence[Slice]) -> tf.Tensor:
    """Return whether all elements are finite, found beside each variable."""
    found = []
    for variable, each in zip(variables_of(saved), slices, strict=True):
        with compiled.ledger.place(_beside(compiled, name, variable), "save"), tf.name_scope(f"save/{name}/"):
            found.append(tf.reduce_all(tf.math.is_finite(each.read), name="finite"))
    if len(found) == 1:
        return found[0]
    first = _beside(compiled, name, variables_of(saved)[0])
    with compiled.ledger.place(first, "save"), tf.name_scope(f"save/{name}/"):
        return tf.reduce_all(tf.stack(found), name="all_finite")


def _restore(compiled: CompiledGraph, name: str, saved: Any, path: tf.Tensor, reader: Placed) -> tf.Operation:
    """Return the op that restores a tensor: each of its variables from the slice that it needs."""
    specs = [slice_spec(each) for each in saved.shards] if isinstance(saved, CutVariable) else [""]
    assigned = []
    for variable, spec in zip(variables_of(saved), specs, strict=True):
        with tf.name_scope(f"save/{name}/"):
            with compiled.ledger.place(reader, "save"):
                (value,) = tf.raw_ops.RestoreV2(
                    prefix=path,
                    tensor_names=[name],
                    shape_and_slices=[spec],
                    dtypes=[variable.dtype],
                    name="restored",
                )
            with compiled.ledger.place(_beside(compiled, name, variable), "save"):
                value.set_shape(variable.shape)
                op = tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value, name="assign")
                assigned.append(op)
    if len(assigned) == 1:
        return assigned[0]
    with compiled.ledger.place(reader, "save"), tf.control_dependencies(assigned):
        return tf.no_op(name=f"save/{name}/assigned")
