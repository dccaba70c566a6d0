"""The Python face of the tool."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from compiler.graph.compiled import CompiledGraph
    from dsl.diagnostics import Diagnostic
    from dsl.ir import Spec
    from tfdeploy.runtime.records.result import Evaluated, Result
    from tfdeploy.runtime.show.reporting import Reporter


def load(
    path: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None, *, allow_python: bool = False
) -> Spec:
    """Read the spec at `path`, with the attributes named in `overrides` replaced, as `--set` does.

    Raises SpecError, whose `diagnostics` say what is wrong and where.
    """
    from grammar import load as read

    pairs = tuple((name, _text(value)) for name, value in (overrides or {}).items())
    return read(os.fspath(path), pairs, allow_python=allow_python)


class SpecWarning(UserWarning):
    """Something strange about a spec that makes it no error; `diagnostic` says what, and where."""

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
    """Return the multi-tower graph of a spec; nothing is run and no data is read.

    With `emulate` every declared device is a logical CPU of this process. `warn` is told of what is strange
    about the spec; by default that becomes Python warnings, of the class SpecWarning. Raises SpecError, also
    if the placement is not what the spec's `expect` asks for.
    """
    from tfdeploy.runtime.plans import graph_of, plan_of

    compiled = graph_of(plan_of(spec, emulate=emulate, verbose=verbose), verbose=verbose)
    from compiler.conditions.capacity import forecast_if_needed, warnings_of
    from compiler.conditions.expect import require_expectations

    memory = forecast_if_needed(compiled)
    for each in warnings_of(compiled, memory):
        (warn or _as_python_warning)(each)
    require_expectations(compiled, memory)
    return compiled


def run(
    spec: Spec,
    *,
    emulate: bool = False,
    resume: Literal["auto", "never", "must"] = "auto",
    verbose: bool = False,
    reporter: Reporter | None = None,
    task: str | None = None,
) -> Result:
    """Train a spec in its run directory and return what `result.json` holds.

    Goes on from the newest checkpoint if there is one, unless `resume` is `never`; `must` asks for one.
    `reporter` is told what happens; without one nothing is printed, and what is strange becomes Python
    warnings, of the class SpecWarning. If the spec has jobs and nothing says
    where they are, all tasks are started as processes of this machine; where something does, `task` is which
    worker this process is, as in `worker:1`, unless TF_CONFIG says it. Raises SpecError, RunError, and
    KeyboardInterrupt or SystemExit if a signal ends the run, after a checkpoint.
    """
    from tfdeploy.runtime.options import RunOptions
    from tfdeploy.runtime.show.reporting import Quiet
    from tfdeploy.runtime.train import start

    chosen = reporter if reporter is not None else Quiet(_as_python_warning)
    options = RunOptions(emulate, resume, verbose, reporter=chosen)
    if emulate or not spec.devices.jobs:
        return start.run(spec, options)
    from tfdeploy.runtime.launch.launched_run import run_on_cluster

    return run_on_cluster(spec, options, task)


def evaluate(
    spec: Spec,
    *,
    splits: Sequence[str] | None = None,
    checkpoint: str | None = None,
    emulate: bool = False,
    verbose: bool = False,
    warn: Callable[[Diagnostic], None] | None = None,
) -> Evaluated:
    """Return the scores of the model that `spec` has trained, over all examples of each split.

    `splits` are `validation` and `test`, as far as there are any, by default. `checkpoint` is a step or a
    path; by default it is the best if the spec asks for it, else the newest. `warn` is told of
    checkpoints that cannot be read and are passed over. Raises SpecError and RunError.
    """
    from tfdeploy.runtime.start_tensorflow import start_tensorflow

    start_tensorflow(verbose=verbose)
    from tfdeploy.runtime.trained.trained import TrainedModel, evaluate_trained

    with TrainedModel.load(
        spec, warn or _silent, checkpoint=checkpoint, emulate=emulate, verbose=verbose
    ) as trained:
        return evaluate_trained(trained, splits)


def predict(
    spec: Spec,
    examples: str | os.PathLike[str],
    predictions: str | os.PathLike[str],
    *,
    split: str | None = None,
    checkpoint: str | None = None,
    emulate: bool = False,
    verbose: bool = False,
    force: bool = False,
    warn: Callable[[Diagnostic], None] | None = None,
) -> int:
    """Write what the model that `spec` has trained predicts for the file `examples`; return for how many.

    Both files are `.csv` or `.npz`. The examples are read and changed as those of `split` are, `test` by
    default if there is one. `predictions` may be there if it has such predictions, else only with `force`,
    and is never a file that is read. See `evaluate` for the rest. Raises SpecError and RunError.
    """
    from tfdeploy.runtime.records.outputs import InputFiles
    from tfdeploy.runtime.start_tensorflow import start_tensorflow

    InputFiles.of(spec, examples).require_not_input(Path(predictions))
    start_tensorflow(verbose=verbose)
    from tfdeploy.runtime.trained.predict import predict as write
    from tfdeploy.runtime.trained.trained import TrainedModel

    with TrainedModel.load(
        spec, warn or _silent, checkpoint=checkpoint, emulate=emulate, verbose=verbose
    ) as trained:
        return write(trained, Path(examples), Path(predictions), split=split, force=force)


def export(
    spec: Spec,
    folder: str | os.PathLike[str],
    *,
    checkpoint: str | None = None,
    emulate: bool = False,
    verbose: bool = False,
    warn: Callable[[Diagnostic], None] | None = None,
) -> None:
    """Write the model that `spec` has trained as a SavedModel into a new `folder`.

    See `evaluate` for the rest. Raises SpecError and RunError.
    """
    from tfdeploy.runtime.start_tensorflow import start_tensorflow

    start_tensorflow(verbose=verbose)
    from tfdeploy.runtime.trained.artifacts import write_saved_model
    from tfdeploy.runtime.trained.trained import TrainedModel

    with TrainedModel.load(
        spec, warn or _silent, checkpoint=checkpoint, emulate=emulate, verbose=verbose
    ) as trained:
        write_saved_model(trained, Path(folder))


def _as_python_warning(warning: Diagnostic) -> None:
    """Issue a Python warning."""
    warnings.warn(SpecWarning(warning), stacklevel=3)


def _silent(warning: Diagnostic) -> None:
    """Say nothing of a warning."""


def _text(value: Any) -> str:
    """Return `value` as the language writes it; a string is taken as it would be after `--set PATH=`."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_quoted(item) if isinstance(item, str) else _text(item) for item in value)}]"
    return repr(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
