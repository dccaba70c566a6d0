"""Ops that write the variables of a graph to a checkpoint and restore them, in TensorFlow's own format.

Every variable is read on its own device; the files are written by the CPU of this process. The name of a
variable in the checkpoint depends neither on mode nor on placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import field, frozen

from compiler.reasons import Placed, Reason

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph


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
    """

    path: tf.Tensor = field(repr=False)
    save_op: tf.Operation = field(repr=False)
    written: tf.Tensor = field(repr=False)
    restore_op: tf.Operation = field(repr=False)
    reads: Mapping[str, tf.Tensor] = field(repr=False)
    restores: Mapping[str, tf.Operation] = field(repr=False)
    finite: Mapping[str, tf.Tensor] = field(repr=False)

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
    homes = {name: ledger.entries[each.handle.op.name].placed.device for name, each in compiled.saved.items()}
    beside = {name: Placed(home, Reason(name, "follows")) for name, home in homes.items()}
    reads, finite, restores = {}, {}, {}
    with compiled.graph.as_default(), tf.name_scope("save/"):
        with ledger.place(here, "save"):
            path = tf.compat.v1.placeholder_with_default(tf.constant("model.ckpt"), (), name="path")
        for name, variable in compiled.saved.items():
            with ledger.place(beside[name], "save"), tf.name_scope(f"save/{name}/"):
                reads[name] = tf.raw_ops.ReadVariableOp(
                    resource=variable.handle, dtype=variable.dtype, name="read"
                )
                if variable.dtype.is_floating:
                    finite[name] = tf.reduce_all(tf.math.is_finite(reads[name]), name="finite")
        with ledger.place(here, "save"):
            names = tf.constant(list(reads), name="names")
            whole = tf.constant([""] * len(reads), name="slices")
            save_op = tf.raw_ops.SaveV2(
                prefix=path,
                tensor_names=names,
                shape_and_slices=whole,
                tensors=list(reads.values()),
                name="write",
            )
            with tf.control_dependencies([save_op]):
                written = tf.identity(path, name="written")
        for name, variable in compiled.saved.items():
            restores[name] = _restore(compiled, name, variable, path, here, beside[name])
        with ledger.place(here, "save"), tf.control_dependencies(list(restores.values())):
            restore_op = tf.no_op(name="restore")
    return Saving(path, save_op, written, restore_op, reads, restores, finite)


def _restore(
    compiled: CompiledGraph, name: str, variable: Any, path: tf.Tensor, reader: Placed, home: Placed
) -> tf.Operation:
    with tf.name_scope(f"save/{name}/"):
        with compiled.ledger.place(reader, "save"):
            (value,) = tf.raw_ops.RestoreV2(
                prefix=path,
                tensor_names=[name],
                shape_and_slices=[""],
                dtypes=[variable.dtype],
                name="restored",
            )
        with compiled.ledger.place(home, "save"):
            value.set_shape(variable.shape)
            return tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value, name="assign")
