"""TFD730 to TFD759 and TFD773: errors while a spec runs, except in its data and in weights it starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic
from dsl.errors.making import error, warning
from dsl.errors.words import counted, first_of, in_full, listed, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.source import Span

MOST_NAMES = 5


def loss_not_finite(step: int, loss: float, last_good: int | None, span: Span | None) -> Diagnostic:
    """Report a loss that is infinite or not a number.

    Args:
        step: The global step.
        loss: The loss.
        last_good: The step of the newest checkpoint; None if there is none.
        span: The place of the loss in the spec; None if it is not known.
    """
    return error(
        "TFD730",
        f"the loss of step {step} is {loss}",
        span,
        text="not finite",
        notes=(_kept(last_good),),
        help="try a smaller learning rate, or `clip = global_norm(1.0)` in `update`",
    )


def gradients_not_finite(skipped: int, span: Span | None) -> Diagnostic:
    """Report gradients that are infinite or no numbers however small the scale of the loss is.

    Args:
        skipped: The number of steps in a row that were skipped.
        span: The place of `precision` in the spec; None if it is not known.
    """
    return error(
        "TFD730",
        f"the gradients of {skipped} steps in a row were not finite",
        span,
        text="steps are skipped here until gradients are finite",
        notes=("the scale of the loss was halved each time, so that it is not what makes them infinite",),
        help="use `precision = mixed_bfloat16`, which has the range of float32, or a smaller learning rate",
    )


def weights_not_finite(
    step: int, names: Sequence[str], last_good: int | None, span: Span | None
) -> Diagnostic:
    """Report weights that a step has made infinite or not a number.

    Args:
        step: The global step.
        names: The names of the weights.
        last_good: The step of the newest checkpoint; None if there is none.
        span: The place of the loss in the spec; None if it is not known.
    """
    what = _some(names)
    return error(
        "TFD730",
        f"after step {step} {what} {'is' if len(names) == 1 else 'are'} not finite",
        span,
        notes=(_kept(last_good),),
        help="try a smaller learning rate, or `clip = global_norm(1.0)` in `update`",
    )


def without_value(why: str, split: str, step: int | None) -> Diagnostic:
    """Warn of an evaluation with a score that has no value.

    Args:
        why: Which score, and why, as a sentence.
        split: The split.
        step: The step after which it was evaluated; None if that is not of interest.
    """
    when = f" after step {step}" if step is not None else ""
    return warning("TFD718", f"{why} in the evaluation on `{split}`{when}", None)


def nothing_counted(split: str, why: str, span: Span | None) -> Diagnostic:
    """Report a run of which no evaluation had a value; warn of it if the run did not need one.

    Args:
        split: The split.
        why: Which score was missing in the last one, and why, as a sentence.
        span: The place of `best` in the spec; None if the best is not wanted.
    """
    message = f"no evaluation on `{split}` counted: {why}"
    if span is None:
        return warning("TFD718", message, None)
    note = "there is no best: the model that was written has the weights of the last step"
    return error("TFD718", message, span, text="compares evaluations", notes=(note,))


def _kept(last_good: int | None) -> str:
    if last_good is None:
        return "no checkpoint had been written"
    return f"the checkpoint of step {last_good} is kept"


def directory_in_use(directory: str, process: int | None, span: Span | None) -> Diagnostic:
    """Report a run directory that another run holds.

    Args:
        directory: The run directory.
        process: The number of the process that holds it; None if it is not known.
        span: The place of the attribute `directory` in the spec; None if it is not known.
    """
    holder = "another process" if process is None else f"process {process}"
    return error(
        "TFD731",
        f"the run directory `{directory}` is in use by {holder}",
        span,
        help="wait for it to end, or give this run a `directory` of its own",
    )


def directory_unusable(directory: str, reason: str, span: Span | None) -> Diagnostic:
    """Report a run directory that cannot be made or written to.

    Args:
        directory: The run directory.
        reason: What the operating system says.
        span: The place of the attribute `directory` in the spec; None if it is not known.
    """
    return error("TFD732", f"`{directory}` cannot be used as run directory: {reason}", span)


def directory_holds_spec(directory: str, spec: str, span: Span | None) -> Diagnostic:
    """Report a run directory in which the spec is that is to run.

    Args:
        directory: The run directory.
        spec: The path of the spec.
        span: The place of the attribute `directory` in the spec; None if it is not known.
    """
    return error(
        "TFD750",
        f"{in_full(directory)} cannot be the run directory of {in_full(spec)}, which is in it",
        span,
        text="holds the spec" if span is not None else "",
        notes=("a run writes and removes files in its directory",),
        help='give the run a folder of its own, as in `directory = "runs/first"`',
    )


def foreign_directory(directory: str, names: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a folder as run directory in which something else is than the files of a run.

    Args:
        directory: The folder.
        names: What is in it that is not of a run.
        span: The place of the attribute `directory` in the spec; None if it is not known.
    """
    return error(
        "TFD751",
        f"{in_full(directory)} is no run directory, and it is not empty",
        span,
        text="somebody else's folder" if span is not None else "",
        notes=(f"in it {'is' if len(names) == 1 else 'are'} {_some(names)}",),
        help="name a folder that is empty or does not exist yet",
    )


def directory_gone(directory: str, now: str | None, span: Span | None) -> Diagnostic:
    """Report a run directory that is not there any more.

    Args:
        directory: The run directory, as it was called.
        now: Where it is now; None if nobody knows.
        span: The place of the attribute `directory` in the spec; None if it is not known.
    """
    if now is not None:
        notes = (f"it was renamed, and is `{now}` now, with all that was written",)
        advice = "rename it back and run again: the run continues from its last checkpoint"
    else:
        notes = ("it was removed, or moved to an unknown place",)
        advice = (
            "run again, and leave the folder alone meanwhile: without its checkpoints "
            "the run starts from the beginning"
        )
    message = f"the run directory `{directory}` is not there any more"
    return error("TFD747", message, span, notes=notes, help=advice)


def file_gone(path: str, span: Span | None) -> Diagnostic:
    """Report a file of a run that was removed, renamed or replaced while the run needed it.

    Args:
        path: The file.
        span: The place of the attribute `directory` in the spec; None if it is not known.
    """
    return error(
        "TFD747",
        f"`{path}` was removed or replaced during the run",
        span,
        help="run again: the run continues from its last checkpoint",
    )


def cannot_write(path: str, reason: str, last_good: int | None = None, *, full: bool = False) -> Diagnostic:
    """Report a file of the run that the operating system refuses to take.

    Args:
        path: The file.
        reason: What the operating system says.
        last_good: The step of the newest checkpoint; None if it is not to be named.
        full: Whether the disk is full.
    """
    return error(
        "TFD733",
        f"`{path}` cannot be written: {reason}",
        None,
        notes=(_kept(last_good),) if last_good is not None else (),
        help="make room on the disk and run again: the run continues from its last checkpoint"
        if full
        else None,
    )


def checkpoint_damaged(path: str, reason: str) -> Diagnostic:
    """Warn of a checkpoint that cannot be read and is passed over for the one before.

    Args:
        path: The checkpoint.
        reason: What is wrong with it.
    """
    return warning("TFD734", f"the checkpoint `{path}` is passed over: {reason}", None)


def record_damaged(path: str, reason: str) -> Diagnostic:
    """Warn of a file of a run that is passed over.

    Args:
        path: The file.
        reason: What it has or is, as the end of a sentence that begins with `it`.
    """
    return warning("TFD746", f"`{path}` is passed over: it {reason}", None)


def no_sound_checkpoint(directory: str, tried: int) -> Diagnostic:
    """Report that every checkpoint of a run is damaged.

    Args:
        directory: The folder of the checkpoints.
        tried: The number of checkpoints.
    """
    return error(
        "TFD734",
        f"none of the {tried:,} checkpoints in `{directory}` can be read"
        if tried > 1
        else f"the only checkpoint in `{directory}` cannot be read",
        None,
        help="start again with `--resume never`, which removes them",
    )


def no_history(path: str, reason: str) -> Diagnostic:
    """Report a run whose history cannot be read.

    Args:
        path: The file.
        reason: Why not.
    """
    return error(
        "TFD745", f"the history `{path}` cannot be read: {reason}", None, help="name a run directory"
    )


def nothing_to_plot(score: str, known: Sequence[str]) -> Diagnostic:
    """Report a score that no line of the histories has.

    Args:
        score: The name of the score.
        known: The scores that there are; none if no step has been logged.
    """
    notes = options("there are", known, score) or ("no step has been logged yet",)
    return error("TFD745", f"no run has a score `{score}`", None, notes=notes)


def split_missing(names: Sequence[str], span: Span | None) -> Diagnostic:
    """Report splits that are to be evaluated and that the spec does not have.

    Args:
        names: The names of these splits, of which there is at least one.
        span: The place of the block `data`, or of the spec in the spec; None if it is not known.
    """
    return error(
        "TFD744",
        f"the spec has no {_some(names)} to evaluate",
        span,
        help=f'add `{names[0]} = csv("...", ...)` to `data`, or choose another with `--split`',
    )


def checkpoint_unreadable(path: str, reason: str) -> Diagnostic:
    """Report a checkpoint that cannot be read, and is not passed over: it may be whole, or was asked for.

    Args:
        path: The checkpoint.
        reason: Why not.
    """
    return error("TFD734", f"the checkpoint `{path}` cannot be read: {reason}", None)


def no_checkpoint(directory: str) -> Diagnostic:
    """Report `--resume must`, or `evaluate`, if nothing was saved."""
    return error(
        "TFD735", f"there is no checkpoint in `{directory}`", None, help="train first: `compile-and-run`"
    )


def checkpoint_does_not_fit(path: str, faults: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a checkpoint of another model.

    Args:
        path: The checkpoint.
        faults: What differs, one variable each.
        span: The place of the model in the spec; None if it is not known.
    """
    return error(
        "TFD736",
        f"the checkpoint `{path}` is of another model",
        span,
        notes=first_of(faults, MOST_NAMES),
        help='give this run a directory of its own, as in `directory = "runs/second"`',
    )


def starts_anew(path: str, names: Sequence[str]) -> Diagnostic:
    """Warn of slots or averages that a checkpoint lacks.

    Args:
        path: The checkpoint.
        names: The names of the slots and averages.
    """
    return warning(
        "TFD737",
        f"the checkpoint `{path}` lacks {_some(names)}",
        None,
        notes=("the missing variables get their initial values", f"{_changed(names)} has been changed since"),
    )


def not_used(path: str, names: Sequence[str]) -> Diagnostic:
    """Warn of weights in a checkpoint for which the model has no place.

    Args:
        path: The checkpoint.
        names: The names of the weights.
    """
    return warning(
        "TFD716",
        f"the checkpoint `{path}` has {_some(names)}, for which the model has no place",
        None,
        notes=("these weights are not used", "the model has been changed since"),
    )


def clones_start_equal(path: str, clones: int) -> Diagnostic:
    """Warn of a checkpoint without a copy for each clone, if each trains by itself.

    Args:
        path: The checkpoint.
        clones: How many clones there are.
    """
    return warning(
        "TFD737",
        f"the checkpoint `{path}` lacks the copies of {clones} clones",
        None,
        notes=(
            "every clone goes on from the mean of the copies, with the slots of clone 0",
            "it was written with another `mode` or number of clones, or by an earlier version",
        ),
    )


def _changed(names: Sequence[str]) -> str:
    """Return which attribute of `update` the variables that a checkpoint lacks belong to."""
    scales = [name.startswith("loss_scale") for name in names]
    if all(scales):
        return "`precision`"
    return "the optimizer, `ema` or `precision`" if any(scales) else "the optimizer or `ema`"


def no_progress(what: str, idle: str, span: Span | None, *reasons: str) -> Diagnostic:
    """Warn that a run has made no progress for a while.

    Args:
        what: What is being done, for the message.
        idle: How long there has been no progress, as text.
        span: The place of what is being done in the spec; None if it is not known.
        *reasons: What is known of why, a sentence each.
    """
    return warning(
        "TFD773",
        f"the run has made no progress in {what} for {idle}",
        span,
        text="this is being done" if span is not None else "",
        notes=reasons,
        help="Ctrl-C ends the run; the same command continues it from its newest checkpoint",
    )


def ended_without_progress(
    signal: str, doing: str, idle: str, last_step: int | None, span: Span | None, *reasons: str
) -> Diagnostic:
    """Report that a signal has ended a run that made no progress.

    Args:
        signal: The name of the signal.
        doing: What was being done, for the message.
        idle: How long there had been no progress, as text.
        last_step: The step of the newest checkpoint; None if there is none.
        span: The place of what was being done in the spec; None if it is not known.
        *reasons: What is known of why, a sentence each.
    """
    kept = (
        f"the newest checkpoint is of step {last_step:,}; the same command continues from there"
        if last_step is not None
        else "there is no checkpoint yet"
    )
    return error(
        "TFD773",
        f"{signal} has ended the run, which had made no progress in {doing} for {idle}",
        span,
        notes=(*reasons, kept),
    )


def step_failed(
    doing: str,
    reason: str,
    span: Span | None,
    *,
    clone: int | None = None,
    layer: str | None = None,
    op: str | None = None,
) -> Diagnostic:
    """Report what TensorFlow refused while it ran the graph, with the clone and the layer it belongs to.

    Args:
        doing: What was being done, for the message.
        reason: What TensorFlow says.
        span: The place of the layer, or of what was being done in the spec; None if it is not known.
        clone: The number of the clone; None if the op is of none.
        layer: The path of the layer; None if the op is of none.
        op: The name of the op; None if it is not known.
    """
    where = [f"clone {clone}"] if clone is not None else []
    where += [f"the layer `{layer}`"] if layer is not None else []
    notes = (f"the op is `{op}`",) if op is not None else ()
    place = f", in {', '.join(where)}" if where else ""
    return error(
        "TFD738", f"{doing} failed{place}: {reason}", span, text="runs this" if span else "", notes=notes
    )


def too_few_examples(size: int, batch: int, span: Span | None, batch_span: Span | None) -> Diagnostic:
    """Report training data smaller than one epoch's first step.

    Args:
        size: The number of examples of all epochs.
        batch: The global batch.
        span: The place of the data in the spec; None if it is not known.
        batch_span: The place of the batch in the spec; None if it is not known.
    """
    from dsl.diagnostics import Label

    return error(
        "TFD739",
        f"{counted(size, 'example')} cannot fill one global batch of {batch}",
        span,
        text=f"{counted(size, 'example')} an epoch",
        labels=(Label(batch_span, f"{batch} examples a step"),) if batch_span is not None else (),
        help="use a smaller batch or more epochs",
    )


def size_unknown(span: Span | None) -> Diagnostic:
    """Report `epochs` over data whose size only reading it would tell."""
    return error(
        "TFD740",
        "the length of an epoch is not known before the data is read",
        span,
        help="give `steps` in place of `epochs`",
    )


def history_mended(path: str, lines: int) -> Diagnostic:
    """Warn of lines of a history that were cut off or are no JSON, and were taken out.

    Args:
        path: The file.
        lines: The number of lines that were taken out.
    """
    return warning(
        "TFD743",
        f"{counted(lines, 'broken line')} of `{path}` {'was' if lines == 1 else 'were'} taken out",
        None,
    )


def _some(names: Sequence[str]) -> str:
    shown = names[:MOST_NAMES]
    more = len(names) - len(shown)
    return f"{', '.join(f'`{name}`' for name in shown)} and {more} more" if more else listed(shown)
