"""TFD73x to TFD75x and TFD773: while a spec runs, except in its data and in weights that it starts from."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.diagnostics import Diagnostic, Severity
from dsl.errors.wording import Placeless, Wording, either, some
from dsl.source import Span

_KEPT = either("the checkpoint of step {last_good?:d} is kept", "no checkpoint had been written")

loss_not_finite = Wording(
    "TFD730: the loss of step {step:d} is {loss}",
    text="not finite",
    notes=(_KEPT,),
    help="try a smaller learning rate, or `clip = global_norm(1.0)` in `update`",
)
gradients_not_finite = Wording(
    "TFD730: the gradients of {skipped:d} steps in a row were not finite",
    text="steps are skipped here until gradients are finite",
    notes=("the scale of the loss was halved each time, so that it is not what makes them infinite",),
    help="use `precision = mixed_bfloat16`, which has the range of float32, or a smaller learning rate",
)
weights_not_finite = Wording(
    "TFD730: after step {step:d} {names:some} {names:is} not finite",
    notes=(_KEPT,),
    help="try a smaller learning rate, or `clip = global_norm(1.0)` in `update`",
)
without_value = Placeless(
    either(
        "warning TFD718: {why} in the evaluation on `{split}` after step {step?:d}",
        "warning TFD718: {why} in the evaluation on `{split}`",
    )
)


def nothing_counted(split: str, why: str, span: Span | None) -> Diagnostic:
    """Return the diagnostic of a run of which no evaluation had a value; `span` is None if it needed none."""
    message = f"no evaluation on `{split}` counted: {why}"
    if span is None:
        return Diagnostic("TFD718", message, severity=Severity.WARNING)
    note = "there is no best: the model that was written has the weights of the last step"
    return Diagnostic("TFD718", message, span, "compares evaluations", notes=(note,))


# --- run directories --------------------------------------------------------------------------------------

directory_in_use = Wording(
    "TFD731: the run directory `{directory}` is in use by {process?:|process {process:d}|another process}",
    help="wait for it to end, or give this run a `directory` of its own",
)
directory_unusable = Wording("TFD732: `{directory}` cannot be used as run directory: {reason}")
directory_holds_spec = Wording(
    "TFD750: {directory:in_full} cannot be the run directory of {spec:in_full}, which is in it",
    text="{if:span}holds the spec",
    notes=("a run writes and removes files in its directory",),
    help='give the run a folder of its own, as in `directory = "runs/first"`',
)
foreign_directory = Wording(
    "TFD751: {directory:in_full} is no run directory, and it is not empty",
    text="{if:span}somebody else's folder",
    notes=("in it {names:is} {names:some}",),
    help="name a folder that is empty or does not exist yet",
)
directory_gone = Wording(
    "TFD747: the run directory `{directory}` is not there any more",
    notes=(
        either(
            "it was renamed, and is `{now?}` now, with all that was written",
            "it was removed, or moved to an unknown place",
        ),
    ),
    help=either(
        "{if:now}rename it back and run again: the run continues from its last checkpoint",
        "run again, and leave the folder alone meanwhile: without its checkpoints "
        "the run starts from the beginning",
    ),
)
file_gone = Wording(
    "TFD747: `{path}` was removed or replaced during the run",
    help="run again: the run continues from its last checkpoint",
)
cannot_write = Placeless(
    "TFD733: `{path}` cannot be written: {reason}",
    notes=("the checkpoint of step {last_good?:d} is kept",),
    help="{if:full?}make room on the disk and run again: a run continues from its last checkpoint, if any",
)

# --- checkpoints and histories ----------------------------------------------------------------------------

checkpoint_damaged = Placeless("warning TFD734: the checkpoint `{path}` is passed over: {reason}")
record_damaged = Placeless("warning TFD746: `{path}` is passed over: it {reason}")
no_sound_checkpoint = Placeless(
    "TFD734: {several:|none of the {tried:,} checkpoints|the only checkpoint} in `{directory}` "
    "{several:|can be|cannot be} read",
    help="start again with `--resume never`, which removes them",
)
no_history = Placeless("TFD745: the history `{path}` cannot be read: {reason}", help="name a run directory")
no_runs = Placeless(
    "TFD775: there is no run in {folders:some}",
    help="name a folder in which runs have their directories; `compile-and-run` makes one in `runs`",
)
other_sweep = Placeless(
    "TFD776: the sweep in `{folder}` is another one: {why}",
    help="give this one a folder of its own with `--out`",
)
parts_too_small = Placeless(
    "TFD777: {count:d} runs at once need {needed:d} {what} each, and there are {there:d} {what}",
    help="run fewer at once",
)
extra_missing = Placeless(
    "TFD778: {why} needs the package `{package}`, which is not installed",
    help="install it: `pip install 'tfdeploy[{extra}]'`",
)
not_delivered = Wording(
    "warning TFD782: `{tracker}` has got {sent:d} of {total:d} lines of the history, and no files",
    notes=("{reason}", "the run directory has everything"),
    help="`tfdeploy runs --deliver {directory}` sends the rest",
)
nothing_to_plot = Placeless(
    "TFD745: no run has a score `{score}`",
    notes=(either("there are {known?:alternatives {score}}", "no step has been logged yet"),),
)
split_missing = Wording(
    "TFD744: the spec has no split {names:some}",
    help='add `{names:first} = csv("...", ...)` to `data`, or choose another with `--split`',
)
checkpoint_unreadable = Placeless("TFD734: the checkpoint `{path}` cannot be read: {reason}")
no_checkpoint = Placeless(
    "TFD735: there is no checkpoint in `{directory}`", help="train first: `compile-and-run`"
)
no_such_checkpoint = Placeless(
    "TFD735: there is no checkpoint `{path}`",
    notes=("`{folder?}` has the {steps?:plural checkpoint} of {steps?:plural step} {steps?:some}",),
    help=either("{if:steps?}name one of these steps", "train first: `compile-and-run`"),
)
checkpoint_does_not_fit = Wording(
    "TFD736: the checkpoint `{path}` is of another model",
    notes=("{faults:each 5}",),
    help='give this run a directory of its own, as in `directory = "runs/second"`',
)
not_used = Placeless(
    "warning TFD716: the checkpoint `{path}` has {names:some}, for which the model has no place",
    notes=("these weights are not used", "the model has been changed since"),
)
clones_start_equal = Placeless(
    "warning TFD737: the checkpoint `{path}` lacks the copies of {clones:d} clones",
    notes=(
        "every clone goes on from the mean of the copies, with the slots of clone 0",
        "it was written with another `mode` or number of clones, or by an earlier version",
    ),
)
history_mended = Placeless("warning TFD743: {lines:counted broken line} of `{path}` {lines:was} taken out")


def starts_anew(path: str, names: Sequence[str]) -> Diagnostic:
    """Warn of slots or averages, `names`, that a checkpoint lacks."""
    scales = [name.startswith("loss_scale") for name in names]
    changed = "the optimizer, `ema` or `precision`" if any(scales) else "the optimizer or `ema`"
    since = f"{'`precision`' if all(scales) else changed} has been changed since"
    return Diagnostic(
        "TFD737",
        f"the checkpoint `{path}` lacks {some(names)}",
        severity=Severity.WARNING,
        notes=("the missing variables get their initial values", since),
    )


# --- steps ------------------------------------------------------------------------------------------------

no_progress = Wording(
    "warning TFD773: the run has made no progress in {what} for {idle}",
    text="{if:span}this is being done",
    notes=("{reasons:each}",),
    help="Ctrl-C ends the run; the same command continues it from its newest checkpoint",
)
ended_without_progress = Wording(
    "TFD773: {signal} has ended the run, which had made no progress in {doing} for {idle}",
    notes=(
        "{reasons:each}",
        either(
            "the newest checkpoint is of step {last_step?:,}; the same command continues from there",
            "there is no checkpoint yet",
        ),
    ),
)
too_few_examples = Wording(
    "TFD739: {size:counted example} cannot fill one global batch of {batch:d}",
    text="{size:counted example} an epoch",
    places={"batch_span?": "{batch:d} examples a step"},
    help="use a smaller batch or more epochs",
)
size_unknown = Wording(
    "TFD740: the length of an epoch is not known before the data is read",
    help="give `steps` in place of `epochs`",
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
    """Return the diagnostic of what TensorFlow refused while it ran an op, perhaps of a clone and a layer."""
    where = [f"clone {clone}"] if clone is not None else []
    where += [f"the layer `{layer}`"] if layer is not None else []
    place = f", in {', '.join(where)}" if where else ""
    notes = (f"the op is `{op}`",) if op is not None else ()
    return Diagnostic(
        "TFD738", f"{doing} failed{place}: {reason}", span, "runs this" if span else "", notes=notes
    )
