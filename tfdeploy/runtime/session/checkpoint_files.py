"""Writes and reads the files of a checkpoint, in the process that has access to them.

In one process, and in a worker that keeps the checkpoints, ops of the graph do it. The client of a cluster
has its files on a machine that may have no server at all: it fetches the values and writes them itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from compiler.graph.session_options import helper_config
from compiler.graph.storage.saving import Saving
from tfdeploy.data import small_graphs

Run = Callable[..., Any]
"""`Session.run` of the session that has the variables."""


PATTERNS = "[\\"
"""The signs by which a path, taken for a pattern, is not its own name; `*` and `?` match themselves."""


@contextmanager
def readable(prefix: Path) -> Iterator[str]:
    """Yield a path by which TensorFlow can read a checkpoint, whatever its folders are called.

    TensorFlow takes the path of a checkpoint that it reads for a pattern. If a folder has a sign of patterns
    in its name, the checkpoint is reached by a symbolic link in a folder for temporary files.
    """
    if not _is_pattern(str(prefix)):
        yield str(prefix)
        return
    places = (each for each in (tempfile.gettempdir(), "/tmp", "/var/tmp") if not _is_pattern(each))  # noqa: S108 a fresh folder is made in it
    with tempfile.TemporaryDirectory(prefix="tfdeploy-", dir=next(places)) as folder:
        link = Path(folder) / "checkpoints"
        link.symlink_to(prefix.parent.absolute(), target_is_directory=True)
        yield str(link / prefix.name)


def _is_pattern(path: str) -> bool:
    return any(sign in path for sign in PATTERNS)


class ServerFiles:
    """Writes variables to the files of a checkpoint, and reads them from there: ops of the graph do.

    Its methods raise tf.errors.OpError.
    """

    def write(self, run: Run, saving: Saving, prefix: str) -> None:
        """Write all variables, a group after the other."""
        if len(saving.groups) == 1:
            run(saving.written, {saving.path: prefix})
            return
        parts = _part_prefixes(saving, prefix)
        for group, part in zip(saving.groups, parts, strict=True):
            run(group.write, {saving.path: part})
        run(saving.merge, {saving.path: prefix, saving.parts: parts})

    def read(self, run: Run, saving: Saving, prefix: str, names: Sequence[str]) -> None:
        """Read each value on the device of its variable: small ones at once, then large ones one by one."""
        sliced = [name for name in names if any(each.region.rows for each in saving.refills[name])]
        run([saving.restores[name] for name in names if name not in sliced], {saving.path: prefix})
        for name in sliced:
            run(saving.restores[name], {saving.path: prefix})


def _read_slice(prefix: str, name: str, spec: str, dtype: tf.DType) -> np.ndarray:
    """Return a slice of a tensor of a checkpoint, without reading the rest."""
    found: list[np.ndarray] = small_graphs.evaluate(
        lambda: tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=[name], shape_and_slices=[spec], dtypes=[dtype]
        )
    )
    return found[0]


def _part_prefixes(saving: Saving, prefix: str) -> list[str]:
    """Return the prefixes of the parts of a checkpoint, which `Store` knows as its unfinished files."""
    return [f"{prefix}.part-{at:05}" for at in range(len(saving.groups))]


class ClientFiles(ServerFiles):
    """This process writes and reads the files."""

    def write(self, run: Run, saving: Saving, prefix: str) -> None:
        """Fetch all variables and write them, a group after the other."""
        parts = _part_prefixes(saving, prefix) if len(saving.groups) > 1 else [prefix]
        for group, part in zip(saving.groups, parts, strict=True):
            values = run([each.read for each in group.slices])
            with tf.Graph().as_default(), tf.compat.v1.Session(config=helper_config()) as session:
                tensors = [tf.compat.v1.placeholder(tf.as_dtype(each.dtype), each.shape) for each in values]
                op = tf.raw_ops.SaveV2(
                    prefix=part,
                    tensor_names=[each.name for each in group.slices],
                    shape_and_slices=[each.region.spec for each in group.slices],
                    tensors=tensors,
                )
                session.run(op, dict(zip(tensors, values, strict=True)))
        if len(parts) > 1:
            small_graphs.evaluate(
                lambda: tf.raw_ops.MergeV2Checkpoints(
                    checkpoint_prefixes=parts, destination_prefix=prefix, delete_old_dirs=False
                )
            )

    def read(self, run: Run, saving: Saving, prefix: str, names: Sequence[str]) -> None:
        """Read the values and feed them, one region after the other."""
        for name in names:
            for each in saving.refills[name]:
                value = _read_slice(prefix, name, each.region.spec, each.value.dtype)
                run(each.ops, {each.value: value})
