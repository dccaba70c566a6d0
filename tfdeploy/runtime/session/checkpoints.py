"""Writes checkpoints of a session, and restores them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.loss_scale import NAME as LOSS_SCALE
from compiler.graph.variables.variables import checkpoint_copy
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import running as errors
from dsl.files.atomic import sync
from tfdeploy.runtime.records.lock import DirectoryGuard
from tfdeploy.runtime.records.store import BrokenCheckpoint, Checkpoint, Manifest, Store
from tfdeploy.runtime.session.checkpoint_files import readable
from tfdeploy.runtime.session.engine import AVERAGE, Engine
from tfdeploy.runtime.session.faults import is_lost_task, reason_of, refused

STEP = "global_step"
_COPY = re.compile(checkpoint_copy("(?P<whole>.+)", "(?P<clone>[0-9]+)"))

DAMAGE = (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError)
"""Errors that tell of the content of the files; others, of what kept them from being read."""

OF_THE_RUN = (
    tf.errors.ResourceExhaustedError,
    tf.errors.CancelledError,
    tf.errors.AbortedError,
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
)
"""Errors of the machine, the cluster or the end of the run, which have nothing to do with the files."""


class DamagedCheckpoint(Exception):  # noqa: N818 no error of the caller's
    """The tensors of a checkpoint cannot be read, or are not those of its manifest; the message says why."""


@define
class Checkpoints:
    """The checkpoints of one run."""

    store: Store
    engine: Engine = field(repr=False)
    keep: int  # how many of the newest checkpoints are kept
    newest: Checkpoint | None = None  # the last checkpoint that was written or resumed from
    best_step: int | None = None  # the step of the checkpoint of the best evaluation, which is kept as well
    # Whether the session goes on training, so that each clone needs what it had by itself.
    trains: bool = True
    # Checks before each write that the run directory has not been removed; None for no check.
    guard: DirectoryGuard | None = None

    # --- writing ------------------------------------------------------------------------------------------

    def save(self, step: int, examples: int) -> float:
        """Write a checkpoint, and remove the oldest ones beyond `keep`.

        A checkpoint of the same step is not written again, unless it has been removed or damaged.

        Raises:
            RunError: If weights are not finite, or the files cannot be written. Earlier checkpoints are kept.
        """
        begun = time.perf_counter()
        if self.guard is not None:
            self.guard.require()
        if (
            self.newest is None
            or self.newest.step != step
            or isinstance(self.store.find(step), BrokenCheckpoint)
        ):
            self._require_finite(step)
            self._write(step)
            self.newest = self.store.commit(self._manifest(step, examples))
            self.store.prune(self.keep, self.best_step)
            self._tell_tensorflow()
        return time.perf_counter() - begun

    def _require_finite(self, step: int) -> None:
        names = self.engine.saving.not_finite(self.engine.session.run)
        if names:
            span = self.engine.compiled.plan.spec.model.span_of("loss")
            raise RunError(errors.weights_not_finite(span, step=step, names=names, last_good=self.last_step))

    def _write(self, step: int) -> None:
        prefix = self.store.prefix(step)
        try:
            self.store.directory.mkdir(parents=True, exist_ok=True)
            self.store.remove(step)  # what is left of a damaged one would be listed in the new manifest
            engine = self.engine
            engine.files.write(engine.session.run, engine.saving, str(prefix))
            for path in self.store.files(step):
                sync(path)
            sync(self.store.directory)  # the manifest must not reach the disk before the names of these files
        except (tf.errors.OpError, OSError) as fault:
            self.store.remove(step)
            if is_lost_task(fault, self.engine.lost):
                raise
            raise refused(prefix, fault, self.last_step) from fault

    def _manifest(self, step: int, examples: int) -> Manifest:
        compiled = self.engine.compiled
        return Manifest(
            step=step,
            examples=examples,
            spec_sha256=compiled.plan.spec.sha256,
            seed=compiled.seed,
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            files={path.name: path.stat().st_size for path in self.store.files(step)},
        )

    def _tell_tensorflow(self) -> None:
        """Write the file by which `tf.train.latest_checkpoint` finds the newest checkpoint."""
        folder, found = self.store.directory, [each.prefix for each in reversed(self.store.whole())]
        # Either way TensorFlow writes names relative to the folder, so that it may be moved.
        paths = [each.name if folder.is_absolute() else str(each) for each in found]
        try:
            tf.compat.v1.train.update_checkpoint_state(str(folder), paths[-1], paths)
        except (tf.errors.OpError, OSError) as fault:
            raise refused(self.store.state, fault, self.last_step) from fault

    @property
    def last_step(self) -> int | None:
        """The step of the newest checkpoint."""
        return None if self.newest is None else self.newest.step

    # --- restoring ----------------------------------------------------------------------------------------

    def latest(self, warn: Callable[[Diagnostic], None]) -> Checkpoint | None:
        """Restore the newest checkpoint that can be read.

        One that is alone, and was never written to its end, is none: the run was killed meanwhile.

        Raises:
            RunError: If all checkpoints are damaged, or one is of another model, or the system refuses to let
                one be read, which may be whole.
        """
        steps = self.store.steps()
        for step in steps:
            found = self.store.find(step)
            if isinstance(found, BrokenCheckpoint) and found.refused:
                raise RunError(errors.checkpoint_unreadable(path=str(found.prefix), reason=found.reason))
            if isinstance(found, Checkpoint):
                try:
                    self.restore(found, warn, everywhere=False)
                except DamagedCheckpoint as fault:
                    found = BrokenCheckpoint(found.prefix, step, str(fault))
                else:
                    return found
            warn(errors.checkpoint_damaged(path=str(found.prefix), reason=found.reason))
        if steps and self.store.had_any():
            folder, tried = str(self.store.directory), len(steps)
            raise RunError(errors.no_sound_checkpoint(directory=folder, tried=tried, several=tried > 1))
        return None

    def resume(self, warn: Callable[[Diagnostic], None]) -> Checkpoint | None:
        """Restore `latest`, and remove all that is newer, because those steps will be made again."""
        self.newest = self.latest(warn)
        self.store.remove_after(-1 if self.newest is None else self.newest.step)
        return self.newest

    def go_on(self, step: int) -> None:
        """Go on from a step whose weights the session has, as if the checkpoints up to it were its own."""
        self.store.remove_after(step)
        self.newest = next((each for each in self.store.whole() if each.step <= step), None)

    def restore(
        self, checkpoint: Checkpoint, warn: Callable[[Diagnostic], None], *, everywhere: bool = True
    ) -> None:
        """Restore the variables from `checkpoint`. Slots and averages that it lacks are initialised.

        Args:
            warn: Called with warnings about what it lacks, or has in vain.
            everywhere: Whether also what each worker keeps for itself is restored, which needs all workers;
                see `restore_apart`.

        Raises:
            DamagedCheckpoint: If its content is damaged. Some variables may have been restored by then.
            RunError: If it is of another model, or TensorFlow cannot read its files.
        """
        compiled = self.engine.compiled
        prefix = str(checkpoint.prefix)
        with self._reading(checkpoint) as path:
            shapes = self._shapes(path, checkpoint)
            missing = [name for name in compiled.saved if name not in shapes]
            own = [name for name in compiled.saved if name not in {*compiled.kept_apart}]
            self._read(path, [name for name in own if name in shapes])
            for name in (each for each in own if each in missing and each.endswith(AVERAGE)):
                weight = name.removesuffix(AVERAGE)
                self.engine.assign({name: self.engine.values([weight])[weight]})
            self.engine.session.run(compiled.after_restore_op)
            apart = self._apart(shapes)
            if compiled.exchange is not None:
                (self._read_apart if everywhere else self._check_apart)(path, apart)
            elif self.trains:
                self._read(path, apart)
        self.engine.restored = compiled.exchange is not None
        if missing:
            warn(errors.starts_anew(prefix, missing))
        slots = tuple(f"{name}/" for name in (*shapes, LOSS_SCALE))
        others = [name for name in shapes if _whole(name) not in compiled.saved and name != LOSS_SCALE]
        unused = sorted(name for name in others if not name.startswith(slots))
        if unused:
            warn(errors.not_used(path=prefix, names=unused))
        if self.trains and compiled.copies and compiled.plan.update.mode == "local" and not apart:
            warn(errors.clones_start_equal(path=prefix, clones=len(compiled.plan.all_towers)))

    def restore_apart(self) -> None:
        """Restore what each worker keeps for itself, from the checkpoint whose weights all workers have."""
        assert self.newest is not None
        with self._reading(self.newest) as path:
            there = tf.train.load_checkpoint(path).get_variable_to_shape_map()
            self._read_apart(path, self._apart(there))

    def _apart(self, there: Collection[str]) -> list[str]:
        """Return the names of what single clones or workers have for themselves in a checkpoint.

        What clones have trained is only of use to as many clones.
        """
        compiled, clones = self.engine.compiled, _clones_in(there, self.engine.compiled.weights)
        if compiled.plan.update.mode == "local" and clones != len(compiled.plan.all_towers):
            return []
        return [name for name in compiled.kept_apart if name in there]

    @staticmethod
    def _check_apart(path: str, names: Sequence[str]) -> None:
        """Read what each worker keeps for itself, so that damage is found while another checkpoint may do."""
        reader = tf.train.load_checkpoint(path)
        for name in names:
            _tensor(reader, name)

    def _read_apart(self, path: str, names: Sequence[str]) -> None:
        self._read(path, names)
        if self.engine.compiled.after_apart_op is not None:
            self.engine.session.run(self.engine.compiled.after_apart_op)

    def _read(self, path: str, names: Sequence[str]) -> None:
        self.engine.files.read(self.engine.session.run, self.engine.saving, path, names)

    @contextmanager
    def _reading(self, checkpoint: Checkpoint) -> Iterator[str]:
        """Give the path by which TensorFlow reads a checkpoint; raise what its errors inside say of it."""
        try:
            with readable(checkpoint.prefix) as path:
                yield path
        except (tf.errors.OpError, OSError) as fault:
            if isinstance(fault, OF_THE_RUN) or is_lost_task(fault, self.engine.lost):
                raise
            if isinstance(fault, DAMAGE):
                raise DamagedCheckpoint(reason_of(fault)) from fault
            raise RunError(
                errors.checkpoint_unreadable(path=str(checkpoint.prefix), reason=reason_of(fault))
            ) from fault

    def _shapes(self, path: str, checkpoint: Checkpoint) -> Mapping[str, list[int]]:
        """Return the shapes of the tensors of a checkpoint by their names.

        Raises:
            RunError: If it is of another model.
            DamagedCheckpoint: If its step is damaged, or another one than its manifest says.
        """
        compiled = self.engine.compiled
        reader = tf.train.load_checkpoint(path)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        faults = [f"it lacks `{name}`" for name in (STEP, *compiled.weights) if name not in shapes]
        for name, variable in compiled.saved.items():
            there = (dtypes[name].name, shapes[name]) if name in shapes else None
            here = (variable.dtype.name, variable.shape.as_list())
            if there not in (None, here):
                faults.append(f"`{name}` is {_words(*there)} there and {_words(*here)} here")
        if faults:
            span = compiled.plan.spec.model.span
            raise RunError(errors.checkpoint_does_not_fit(span, path=str(checkpoint.prefix), faults=faults))
        step = int(_tensor(reader, STEP))
        if step != checkpoint.step:
            raise DamagedCheckpoint(f"its tensors are of step {step}")
        found: Mapping[str, list[int]] = shapes
        return found


def _tensor(reader: Any, name: str) -> Any:
    """Return a tensor of a checkpoint, whose files TensorFlow's reader has opened.

    Raises:
        DamagedCheckpoint: If it is damaged, for which the reader has no kind of error.
    """
    try:
        return reader.get_tensor(name)
    except tf.errors.OpError as fault:
        raise DamagedCheckpoint(reason_of(fault)) from fault


def _whole(name: str) -> str:
    """Return the name of the weight or slot of which a tensor of a checkpoint is the copy of a clone."""
    copy = _COPY.fullmatch(name)
    return name if copy is None else copy["whole"]


def _clones_in(names: Iterable[str], weights: Collection[str]) -> int:
    """Return how many clones have copies of their own in a checkpoint with these tensors."""
    copies = (_COPY.fullmatch(name) for name in names)
    numbers = [int(each["clone"]) for each in copies if each is not None and each["whole"] in weights]
    return max(numbers, default=-1) + 1


def _words(dtype: str, shape: list[int]) -> str:
    return f"{dtype}{shape}"
