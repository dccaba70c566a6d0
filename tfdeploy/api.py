"""The functions that `import tfdeploy` offers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve

from dsl.diagnostics import RunError
from dsl.errors import types as errors
from dsl.files.regular import scheme_of
from tfdeploy.showing import register_summaries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from compiler.graph.compiled import CompiledGraph
    from dsl.diagnostics import Diagnostic
    from dsl.ir import Spec
    from tfdeploy.runtime.records.result import Evaluated, Result
    from tfdeploy.runtime.show.reporting import Reporter
    from tfdeploy.runtime.trained.trained import TrainedModel

register_summaries()  # what these functions return shows itself in notebooks

TABLES = (".csv", ".npz")
"""The endings of files of examples and of predictions."""


def load(
    path: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    *,
    allow_python: bool = False,
    warn: Callable[[Diagnostic], None] | None = None,
) -> Spec:
    """Read a spec.

    Args:
        path: The file of the spec.
        overrides: New values of attributes by their paths, such as `clones.count`, as `--set` takes them.
        allow_python: Whether the spec may load code with `python(...)`.
        warn: Is told each warning that reading the spec gives; by default each becomes a SpecWarning.

    Returns:
        The spec with its includes, constants, overrides and defaults filled in.

    Raises:
        SpecError: If the spec has errors; `diagnostics` lists all of them.
        TypeError: If `overrides` is no mapping from names.
    """
    from dsl.diagnostics import SpecError
    from grammar import read

    if overrides is not None and not (
        isinstance(overrides, Mapping) and all(isinstance(name, str) for name in overrides)
    ):
        raise TypeError(f"overrides is a mapping with paths of attributes as its keys, not {overrides!r}")
    pairs = tuple((name, _text(value)) for name, value in (overrides or {}).items())
    found = read(os.fspath(path), pairs, allow_python=allow_python)
    if found.spec is None:
        raise SpecError(each for each in found.diagnostics if each.is_error)
    for each in found.diagnostics:
        (warn or as_python_warning)(each)
    return evolve(found.spec, folder=_current_folder())


class SpecWarning(UserWarning):
    """A Python warning about a spec that can be used all the same; `diagnostic` is the whole message."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        place = diagnostic.span.begin if diagnostic.span is not None else None
        where = f"{diagnostic.path}:{place.line}:{place.column}: " if place is not None else ""
        super().__init__(f"{where}{diagnostic.code}: {diagnostic.message}")


def compile(  # noqa: A001
    spec: Spec,
    *,
    emulate: bool = False,
    verbose: bool = False,
    warn: Callable[[Diagnostic], None] | None = None,
) -> CompiledGraph:
    """Build the multi-tower graph of a spec. Nothing is trained.

    No data is read, unless a layer learns from it (`adapt = data.train`).

    Args:
        spec: The spec, as `load` returns it.
        emulate: Whether every declared device is a logical CPU of this process.
        verbose: Whether TensorFlow's own messages are shown.
        warn: Called with each warning about the spec. By default, Python warnings of the class SpecWarning
            are issued.

    Returns:
        The graph, with handles on its parts.

    Raises:
        SpecError: If the graph cannot be built, or its placement does not meet the spec's `expect`.
    """
    spec = settled(spec)
    from tfdeploy.runtime.adapted import adapted
    from tfdeploy.runtime.plans import graph_of, plan_of
    from tfdeploy.runtime.start_tensorflow import start_tensorflow

    plan = plan_of(spec, emulate=emulate, verbose=verbose)
    start_tensorflow(verbose=verbose)
    compiled = graph_of(adapted(plan))
    from compiler.conditions import forecast_if_needed, require_expectations, time_if_needed, warnings_of

    memory = forecast_if_needed(compiled)
    for each in warnings_of(compiled, memory):
        (warn or as_python_warning)(each)
    require_expectations(compiled, memory, time_if_needed(compiled))
    return compiled


def run(
    spec: Spec,
    *,
    emulate: bool = False,
    resume: Literal["auto", "never", "must"] = "auto",
    verbose: bool = False,
    reporter: Reporter | None = None,
    task: str | None = None,
    join: str | None = None,
) -> Result:
    """Train a spec in its run directory.

    If the spec has jobs and neither `hosts` nor TF_CONFIG gives their addresses, all tasks are started as
    processes of this machine.

    Args:
        spec: The spec, as `load` returns it.
        emulate: Whether every declared device is a logical CPU of this process.
        resume: `auto` continues from the newest checkpoint if there is one, `must` requires one, and `never`
            starts again.
        verbose: Whether TensorFlow's own messages are shown.
        reporter: Is called with the progress of the run. Without one nothing is printed, and warnings become
            Python warnings of the class SpecWarning.
        task: Which task of the cluster this process is, such as `worker:1`, if its address is known and
            TF_CONFIG does not name the task.
        join: A folder, or `HOST:PORT`, where this process meets the other tasks of the cluster. It becomes
            the first free task that trains; others, such as parameter servers, are started by
            `compile-and-run --join`.

    Returns:
        The outcome of the run, as `result.json` holds it.

    Raises:
        SpecError: If the spec cannot be trained as it is.
        RunError: If the run cannot continue.
        KeyboardInterrupt: If SIGINT has ended the run, after a checkpoint.
        SystemExit: If SIGTERM has ended the run, after a checkpoint.
    """
    spec = settled(spec)
    if resume not in {"auto", "never", "must"}:
        raise ValueError(f"resume is 'auto', 'never' or 'must', not {resume!r}")
    from tfdeploy.runtime.plans import RunOptions
    from tfdeploy.runtime.show.reporting import Quiet
    from tfdeploy.runtime.train import start

    chosen = reporter if reporter is not None else Quiet(as_python_warning)
    options = RunOptions(emulate, resume, verbose, reporter=chosen)
    if emulate or not spec.devices.jobs:
        return start.run(spec, options)
    from tfdeploy.runtime.launch.launched_run import run_on_cluster

    return run_on_cluster(spec, options, task, join)


def evaluate(
    spec: Spec,
    *,
    splits: str | Sequence[str] | None = None,
    checkpoint: int | str | os.PathLike[str] | None = None,
    emulate: bool = False,
    verbose: bool = False,
    warn: Callable[[Diagnostic], None] | None = None,
) -> Evaluated:
    """Evaluate the model that a spec has trained, over all examples of each split.

    Args:
        spec: The spec, as `load` returns it.
        splits: The split or the splits to evaluate; by default those of `validation` and `test` that the spec
            has.
        checkpoint: The step or the path of a checkpoint. By default it is the best one if the spec asks for
            the best, else the newest.
        emulate: Whether every declared device is a logical CPU of this process.
        verbose: Whether TensorFlow's own messages are shown.
        warn: Called with a warning about each checkpoint that cannot be read and is passed over, and each
            split of which a score has no value.

    Returns:
        The loss and the metrics of each split.

    Raises:
        SpecError: If the graph of the spec cannot be built.
        RunError: If there is no such checkpoint or split, or the data cannot be read.
    """
    with _trained(spec, checkpoint, warn, emulate=emulate, verbose=verbose) as trained:
        from tfdeploy.runtime.trained.trained import evaluate_trained

        return evaluate_trained(trained, warn or _silent, [splits] if isinstance(splits, str) else splits)


def predict(
    spec: Spec,
    examples: str | os.PathLike[str],
    predictions: str | os.PathLike[str],
    *,
    split: str | None = None,
    checkpoint: int | str | os.PathLike[str] | None = None,
    emulate: bool = False,
    verbose: bool = False,
    force: bool = False,
    warn: Callable[[Diagnostic], None] | None = None,
) -> int:
    """Write what the model that a spec has trained predicts for the examples of a file.

    Args:
        spec: The spec, as `load` returns it.
        examples: The `.csv` or `.npz` file with the examples.
        predictions: The `.csv` or `.npz` file to write.
        split: The split whose transforms are applied to the examples. By default it is `test`, else
            `validation`, else `train`.
        checkpoint: The step or the path of a checkpoint; see `evaluate`.
        emulate: Whether every declared device is a logical CPU of this process.
        verbose: Whether TensorFlow's own messages are shown.
        force: Whether `predictions` is replaced even if it is no file of such predictions. A file that is
            read is never replaced.
        warn: Called with a warning about each checkpoint that cannot be read and is passed over, and about
            an example that makes outputs infinite or no numbers.

    Returns:
        The number of examples.

    Raises:
        SpecError: If the graph of the spec cannot be built, or the examples do not fit its inputs.
        RunError: If there is no such checkpoint or split, or a file cannot be read or written.
        ValueError: If there can be no such split, or a file is of another kind.
    """
    spec = settled(spec)
    from dsl.ir import SPLITS

    if split is not None and split not in SPLITS:
        raise ValueError(f"split is 'train', 'validation' or 'test', not {split!r}")
    for name, file in (("examples", examples), ("predictions", predictions)):
        if Path(file).suffix not in TABLES:
            raise ValueError(f"{name} is a .csv or .npz file, not {os.fspath(file)!r}")
    from tfdeploy.runtime.records.files import InputFiles

    InputFiles.of(spec, examples).require_not_input(Path(predictions))
    with _trained(spec, checkpoint, warn, emulate=emulate, verbose=verbose) as trained:
        from tfdeploy.runtime.trained.predict import predict as write

        return write(trained, Path(examples), Path(predictions), warn or _silent, split=split, force=force)


def export(
    spec: Spec,
    folder: str | os.PathLike[str],
    *,
    checkpoint: int | str | os.PathLike[str] | None = None,
    emulate: bool = False,
    verbose: bool = False,
    warn: Callable[[Diagnostic], None] | None = None,
) -> None:
    """Write the model that a spec has trained as a SavedModel.

    Args:
        spec: The spec, as `load` returns it.
        folder: The folder of the SavedModel, which must not exist.
        checkpoint: The step or the path of a checkpoint; see `evaluate`.
        emulate: Whether every declared device is a logical CPU of this process.
        verbose: Whether TensorFlow's own messages are shown.
        warn: Called with a warning about each checkpoint that cannot be read and is passed over.

    Raises:
        SpecError: If the graph of the spec cannot be built.
        RunError: If there is no such checkpoint, or the folder cannot be written.
    """
    spec = settled(spec)
    if scheme_of(os.fspath(folder)) is not None:
        raise RunError(errors.address("`folder`", os.fspath(folder), None))
    with _trained(spec, checkpoint, warn, emulate=emulate, verbose=verbose) as trained:
        from tfdeploy.runtime.trained.trained import write_saved_model

        write_saved_model(trained, Path(folder))


def _trained(
    spec: Spec,
    checkpoint: int | str | os.PathLike[str] | None,
    warn: Callable[[Diagnostic], None] | None,
    *,
    emulate: bool,
    verbose: bool,
) -> AbstractContextManager[TrainedModel]:
    """Start TensorFlow and open the model that a spec has trained."""
    spec = settled(spec)
    from tfdeploy.runtime.start_tensorflow import start_tensorflow

    start_tensorflow(verbose=verbose)
    from tfdeploy.runtime.trained.trained import TrainedModel

    wanted = None if checkpoint is None else str(checkpoint)
    return TrainedModel.load(spec, warn or _silent, checkpoint=wanted, emulate=emulate)


def settled(spec: Spec) -> Spec:
    """Return a spec with paths that hold if the current folder is another one since it was loaded.

    Raises:
        TypeError: If it is something else, such as the path of a spec.
    """
    from dsl.ir import Spec

    if not isinstance(spec, Spec):
        raise TypeError(f"spec is what `tfdeploy.load` returns, not {spec!r}")
    if not spec.folder or spec.folder == _current_folder():
        return spec
    from tfdeploy.runtime.records.directory import RunDirectory

    folder = Path(spec.folder)
    directory = spec.train.directory
    if directory is None or scheme_of(directory) is None:
        directory = str(folder / RunDirectory.of(spec).path)
    return evolve(
        spec,
        path=str(folder / spec.path),
        includes=tuple(str(folder / each) for each in spec.includes),
        train=evolve(spec.train, directory=directory),
        folder="",
    )


def _current_folder() -> str:
    """Return the current folder, or nothing if it was removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def as_python_warning(warning: Diagnostic) -> None:
    """Issue a Python warning."""
    warnings.warn(SpecWarning(warning), stacklevel=3)


def _silent(warning: Diagnostic) -> None:
    """Ignore a warning."""


def _text(value: Any) -> str:
    """Return `value` as the language writes it; a string is returned unchanged, as after `--set PATH=`."""
    from grammar.unparse import plain, quoted

    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return quoted(os.fspath(value))
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):  # as of `np.logspace`
        return _text(value.tolist())
    if isinstance(value, list | tuple):
        return f"[{', '.join(quoted(each) if isinstance(each, str) else _text(each) for each in value)}]"
    return plain(value)
