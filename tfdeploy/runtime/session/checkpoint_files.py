"""Writes and reads the files of a checkpoint, in the process that has access to them.

In one process, and in a worker that keeps the checkpoints, ops of the graph do it. The client of a cluster
has its files on a machine that may have no server at all: it fetches the values and writes them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow as tf
from attrs import frozen

if TYPE_CHECKING:
    from compiler.graph.storage.saving import Saving

Run = Callable[..., Any]
"""`Session.run` of the session that has the variables."""


class CheckpointFiles(Protocol):
    """Writes variables to the files of a checkpoint, and reads them from there.

    `run` is `Session.run` of the session that has the variables, `prefix` the path by which TensorFlow knows
    the checkpoint.
    """

    def write(self, run: Run, saving: Saving, prefix: str) -> None:
        """Write all variables; raises tf.errors.OpError."""

    def read(self, run: Run, saving: Saving, prefix: str, names: Sequence[str]) -> None:
        """Set the variables `names` to the values in the files; raises tf.errors.OpError."""


class ServerFiles:
    """Ops of the graph write and read the files."""

    def write(self, run: Run, saving: Saving, prefix: str) -> None:
        """Write all variables."""
        run(saving.written, {saving.path: prefix})

    def read(self, run: Run, saving: Saving, prefix: str, names: Sequence[str]) -> None:
        """Read each value on the device of its variable."""
        run([saving.restores[name] for name in names], {saving.path: prefix})


@frozen
class ClientFiles:
    """This process writes and reads the files.

    Attributes:
        initializers: The op of each variable that sets it to a value that is fed, by the variable's name.
    """

    initializers: Mapping[str, tf.Operation]

    def write(self, run: Run, saving: Saving, prefix: str) -> None:
        """Fetch all variables and write them."""
        values = run(dict(saving.reads))
        with tf.Graph().as_default():
            tensors = [
                tf.compat.v1.placeholder(tf.as_dtype(each.dtype), each.shape) for each in values.values()
            ]
            op = tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=list(values),
                shape_and_slices=[""] * len(values),
                tensors=tensors,
            )
            with tf.compat.v1.Session() as session:
                session.run(op, dict(zip(tensors, values.values(), strict=True)))

    def read(self, run: Run, saving: Saving, prefix: str, names: Sequence[str]) -> None:
        """Read the values and feed them."""
        del saving
        reader = tf.train.load_checkpoint(prefix)
        ops = {name: self.initializers[name] for name in names}
        run(list(ops.values()), {op.inputs[1]: reader.get_tensor(name) for name, op in ops.items()})
