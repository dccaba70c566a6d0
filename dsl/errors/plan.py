"""TFD5xx and TFD75x: what cannot be planned, and files of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.wording import Placeless, Wording, either, quoted, sizes
from dsl.ir import Condition
from dsl.source import Span

batch_list_length = Wording(
    "TFD502: `batch` lists {given:counted number} for {clones:counted clone}",
    text="{given:d} here",
    help="give {clones:counted number}, or one number for all clones",
)
too_many_steps = Wording(
    "TFD518: the model has more than {most:,} steps once `layer` blocks and `repeat` are written out",
    text="up to here it has {total:countable}",
    notes=("each call of a layer, each operation and each use of a `layer` block is a step",),
)
blocks_too_deep = Wording(
    "TFD518: `layer` blocks are used within each other more than {deepest:d} deep",
    text="level {deepest:plus 1}",
)
expressions_too_deep = Wording(
    "TFD518: expressions and `layer` blocks are nested too deeply within each other",
    help="give parts of the expressions names of their own",
)
no_device = Wording(
    "TFD503: there is no device for {what}",
    text="names no device",
    notes=("the placement is `{text}`",),
    help="declare the devices in `devices`, or use devices that are there",
)
device_not_present = Wording(
    "TFD504: this machine has no `{ref}`",
    notes=("devices found: {found?:|{found:ticked ,}|none}",),
    help="use `--emulate` to put every declared device on a logical CPU of its own, or change `devices`",
)


def uneven_batch(global_batch: int, clones: int, span: Span | None, rounds: int = 1) -> Diagnostic:
    """Return the diagnostic of a global batch that clones of so many micro-batches cannot share evenly."""
    parts = clones * rounds
    below = global_batch // parts * parts
    nearest = [str(each) for each in (below, below + parts) if each > 0]
    among = f"{clones} clones" if rounds == 1 else f"{clones} clones with {rounds} micro-batches each"
    return Diagnostic(
        "TFD501",
        f"a global batch of {global_batch} does not divide evenly among {among}",
        span,
        f"{global_batch} / {parts} leaves {global_batch % parts}",
        help=f"use {' or '.join(nearest)}, or give `batch` a list with one number for each clone",
    )


# --- shapes, sizes and layers -----------------------------------------------------------------------------

shape_mismatch = Wording(
    "TFD506: `{step}` cannot be applied here",
    text="gets {shapes:ticked and}",
    notes=("{reason?}",),
    help="{advice?}",
)
_free_axis = Wording(
    "TFD506: `{step}` cannot be applied here",
    text="gets {shapes:ticked and}",
    notes=("{reason}",),
    help="give the input a size, to which `pad(..., to = SIZE)` fills the examples; or take a layer that "
    "joins all positions, such as `GlobalAveragePooling1D()`",
    labelled=True,
)
shape_of_the_pass = Wording(
    "TFD593: `{step}` gives `{trained:sizes}` in training and `{evaluated:sizes}` in evaluation, which the "
    "model cannot use",
    text="another shape in evaluation",
    places={"failed?": "cannot use `{evaluated:sizes}`"},
    help=either(
        "{if:crops}crop examples in the data: `random_crop` in `train`, and `center_crop` in the other "
        "splits",
        "use a layer that gives the same shape in both, or change the examples in the data",
    ),
)
tensor_too_large = Wording(
    "TFD506: a tensor of `{name}` has more than {most:,} numbers for each example",
    text="gives `{shape:sizes}`",
    notes=("TensorFlow counts the numbers of a tensor in 32 bits in many places",),
)
batch_too_large = Wording(
    "TFD506: a batch of {batch:d} is too large: a tensor of `{name}` would have more than {most:,} numbers",
    text="makes it `{whole:sizes}`",
    notes=("TensorFlow counts the numbers of a tensor in 32 bits in many places",),
    help="give the clones fewer examples; `update {{ accumulate = ... }}` adds up several batches",
)
weights_too_large = Wording(
    "TFD546: the variables of the model take {total}, and {reason}",
    text="its `{name}` is `{shape:sizes}`, {largest}",
    help="make the layer smaller, or spread the variables over several machines",
)
batch_without_room = Wording(
    "TFD546: a tensor of {needed} has no room beside the variables: {reason}",
    text="makes it this large",
    notes=("it is the output of `{name}`, `{shape:sizes}`",),
    help="use a smaller batch, or `accumulate` several of them",
)
layer_cannot_be_made = Wording(
    "TFD507: `{step}` cannot be made with these arguments", text="here", notes=("{reason}",)
)
cannot_be_saved = Wording(
    "TFD563: `{what}` can be trained, but not be saved and loaded",
    text="here",
    notes=("{reason}",),
    help="{if:own?}a class needs a `get_config` with all arguments of its `__init__`, among them `**kwargs`; "
    "a function must be at the top of its module",
)


def free_axis(
    step: str, shapes: Sequence[str], reason: str, axes: Sequence[tuple[str, Span | None]], span: Span | None
) -> Diagnostic:
    """Return the diagnostic of a step whose weights depend on axes of inputs without a fixed size."""
    labels = tuple(Label(at, f"{words} has no fixed size") for words, at in axes if at is not None)
    return _free_axis(span, step=step, shapes=shapes, reason=reason, labels=labels)


def wrong_rank(
    step: str, shape: Sequence[int | None], dtype: str, wanted: int, span: Span | None, *, at_least: bool
) -> Diagnostic:
    """Return the diagnostic of a step that takes tensors of another rank; shapes have no batch axis."""
    axes = "1 axis" if wanted == 1 else f"{wanted} axes"
    more = "or more " if at_least else ""
    missing = wanted - len(shape)
    if missing <= 0:
        advice = "make one axis of several before it: `-> Flatten()`, or `-> Reshape([...])`"
    else:
        example = ", ".join([*(sizes([each])[1:-1] for each in shape), *["1"] * missing])
        advice = (
            f"give it more axes before: `-> Reshape([{example}])`, or leave out the `Flatten()` before it"
        )
    return Diagnostic(
        "TFD506",
        f"`{step}` takes {axes} {more}for each example, not {len(shape)}",
        span,
        f"gets `{dtype} {sizes(shape)}`",
        help=advice,
    )


# --- training ---------------------------------------------------------------------------------------------

no_optimizer = Wording(
    "TFD508: there is no optimizer to train with",
    help="write `update {{ optimizer = Adam(learning_rate = 1e-3) }}`",
)
nothing_to_train_on = Wording("TFD509: there is no {missing}, which training needs", help="{advice?}")
no_gradient = Wording(
    "TFD510: the loss does not depend on any weight",
    notes=("{variables?:|weights: {variables:ticked ,}|the model has no weights}",),
    help="take the prediction of the loss from a layer with weights",
)


def no_training_data(
    span: Span | None, inputs: Mapping[str, int], missing: str = "`data.train`", *, block: bool
) -> Diagnostic:
    """Return the diagnostic of a spec without `data.train`, which can have a `block` for other splits.

    The ranks of inputs are without the batch axis.
    """
    if all(rank <= 1 for rank in inputs.values()):
        columns = [f'{name} = "{name}{"_*" if rank else ""}"' for name, rank in inputs.items()]
        source = f'csv("train.csv", {", ".join(columns)})'
    else:
        source = 'npz("train.npz")'
    where = " to `data`" if block else ", in `data { ... }`"
    return nothing_to_train_on(span, missing=missing, advice=f"add `train = {source}`{where}")


# --- placement --------------------------------------------------------------------------------------------

rule_matches_nothing = Wording(
    "TFD511: `{selector}` matches nothing",
    text="no such name",
    notes=("the nearest names are {names?:ticked ,}",),
)
stray_op = Wording(
    "TFD512: the op `{op}` is {device?:|on `{device}`|without a device}: {reason}",
    text="{if:span}placed by this",
    notes=("{if:more}{more:counted more op} {more:is} placed like this",),
)
clones_exceed_group = Wording(
    "TFD513: a group of {size:d} devices cannot be made from {devices:d}",
    text="{devices:d} devices",
    places={"label?": "the devices are declared here"},
)
no_group_member = Wording(
    "TFD514: `group[{index:d}]` does not exist",
    text="index {index:d}",
    notes=("each clone owns {several:|{size:d} devices (0..{size:plus -1})|one device}",),
    help="give clones larger groups: `clones -> groups(gpu[*], size = {index:plus 1})`",
)
ops_elsewhere = Wording(
    "warning TFD515: {total:counted op} ran on another device than requested: {moved:joined}",
    text="{if:span}this lets TensorFlow choose",
    notes=("such as {names:listed}", "`misplaced` in `placement.json` lists each of them"),
)
too_full = Wording(
    "warning TFD535: a step needs {needed} on {place}, {excess} more than `{attribute}`",
    text="{limit} here",
    notes=("{notes:each}",),
    help="use smaller batches, spread the variables over more devices, compute in `mixed_bfloat16`, or "
    "compute parts of the model again with `recompute`",
)

limit_not_reached = Wording(
    "warning TFD530: a step needs {needed} on `{device}`, although all is computed again that saves memory",
    text="{limit} here",
    help="use smaller batches, with `accumulate` if a step is to have as many examples, or spread the "
    "variables over more devices",
)

# --- variables in pieces ----------------------------------------------------------------------------------

JOINED = "its update of one element may depend on others"
"""Why an optimizer needs the whole of a variable."""

needs_whole = Wording(
    "TFD548: `{name}` cannot be sharded, because {what} needs the whole variable",
    text="{reason}",
    places={"rule?": "the variable is cut by this"},
    help="give the variable a rule of its own that keeps it whole, such as"
    ' `variables("{name}") -> balanced(...)` below the other',
)
update_needs_whole = Wording(
    "TFD548: the slots of `{name}` cannot be cut over the clones, because the optimizer, {what}, needs the "
    "whole variable",
    text=JOINED,
    places={"rule?": "each clone would update a part by this"},
    help="select the slots to cut by globs that leave this variable out, or give the variable an"
    " optimizer of its own with `optimizer {{ ... }}`",
)
slots_without_copies = Wording(
    "TFD549: the slots of `{name}` cannot be cut over the clones, because `{name}` is not replicated",
    text="each clone would keep a part of these slots",
    places={"rule?": "this places `{name}`"},
    notes=("a clone updates its part of a variable in a copy that it has, and sends the new values",),
    help="replicate the variable, or select the slots to cut by a glob, as in"
    ' `slots("dense/*") -> sharded(clones)`',
)


def no_such_axis(name: str, shape: Sequence[int], axis: int, span: Span | None) -> Diagnostic:
    """Return the diagnostic of a variable of a shape that lacks the axis along which its rule cuts it."""
    here = "one axis (number 0)" if len(shape) == 1 else f"axes 0..{len(shape) - 1}"
    use = 'select the variables to cut by a glob, as in `variables("dense/kernel") -> sharded(..., axis = 1)`'
    if axis > 1:
        use = f"select by a glob only variables with more than {axis} axes"
        use += f", or cut along an axis that is there, as with `axis = {len(shape) - 1}`" if shape else ""
    note = f"its shape is {list(shape)}, which has {here}" if shape else "it is a single number"
    return Diagnostic("TFD547", f"`{name}` has no axis {axis}", span, "no such axis", notes=(note,), help=use)


# --- what goes together, and workers with graphs of their own ---------------------------------------------

random_numbers = Wording(
    "TFD527: the model draws random numbers that cannot be switched off",
    notes=("every clone draws its own, so no two layouts compute the same",),
    help="leave out what draws them, such as a layer of your own that calls `keras.random`",
)
random_predictions = Wording(
    "TFD527: `{step}` draws random numbers also when the model predicts",
    text="draws also without training",
    notes=("evaluation and the exported model must give the same result for the same example",),
    help="let its `call` take the argument `training`, and draw only if that is true",
)
worker_without_clones = Wording(
    "TFD541: no clone is on `{task}`",
    text="leaves it out",
    notes=("under `replication = between_graph` every worker trains clones of its own",),
    help="give clones to every worker, or declare fewer tasks",
)
clones_on_server = Wording(
    "TFD542: a clone is on `{task}`, which only keeps variables",
    text="puts it there",
    notes=("under `replication = between_graph` only workers have a graph",),
    help="put the clones onto workers, or use `replication = in_graph`",
)
too_many_backups = Wording(
    "TFD543: `backup = {backup:d}` leaves no worker to wait for",
    text="of {workers:counted worker}",
    help="use at most `backup = {most:d}`",
)
workers_cannot_change = Wording(
    "TFD748: `{written}` {fault}",
    text="here",
    places={"job?": "workers come and go by this"},
    notes=("{reason}",),
    help="{advice}",
)
uneven_workers = Wording(
    "TFD544: `backup` needs workers with equal batches",
    text="does without any of them",
    notes=("the workers take {batches} examples in a step",),
    help="give every worker clones with the same batches in all, or leave `backup` out",
)
other_workers_device = Wording(
    "TFD545: the graph of `{worker}` would have ops on `{device}`, which belongs to another worker",
    text="puts them there",
    notes=("the first of them is `{op?}`",),
    help="name a device of every worker, such as `worker[*].cpu[0]`, or one of a parameter server",
)

layer_goes_back = Wording(
    "TFD519: `{layer}` on `group[{number}]` takes what `{before}` on `group[{later}]` makes, so that "
    "micro-batches would have to go back",
    text="comes after a later stage",
    notes=("a pipeline goes from `group[0]` to the last device of the group",),
    help="put it on `group[{later}]` or behind that, or leave `schedule` out",
    labelled=True,
)
one_stage = Wording(
    "warning TFD519: all ops of a clone are on `{device}`, so that `schedule` has no stages",
    text="nothing can be done at the same time",
    help='write a rule with which the second stage begins, such as `ops("decoder/*") -> group[1]`, or let '
    "`tfdeploy suggest` find stages that take equally long",
)


def conflict(
    code: str, message: str, reasons: tuple[str, ...], nearest: str, span: Span | None, other: Span | None
) -> Diagnostic:
    """Return the diagnostic of settings that cannot be combined; `nearest` says which can, as advice."""
    label = (Label(other, "with this"),) if other is not None and other != span else ()
    return Diagnostic(code, message, span, "here", labels=label, notes=reasons, help=nearest)


# --- the size of a graph ----------------------------------------------------------------------------------

_TOO_LARGE = "TFD517: the graph would have more than {total}, and TensorFlow can hold no more than 2 GiB"
_WHY = "a graph is saved, and sent to other tasks, as one message of protobuf, which has 2 GiB at most"
_ONLY_SHOWN = "{if:warn}its placement is shown all the same, but it cannot be run"

sums_too_large = Wording(
    _TOO_LARGE,
    text="{ops:about} ops that sum the gradients of {clones:,} clones",
    notes=("{if:pieces}`{aggregate}` cuts the gradients of every clone into a piece for every clone", _WHY),
    help="use {better:joined or}",
)
towers_too_large = Wording(
    _TOO_LARGE,
    text="{ops:about} ops of {clones:,} clones",
    notes=(_WHY, _ONLY_SHOWN),
    help=either(
        "{if:between_graph}use `update.replication = between_graph`, which gives each worker a graph of its "
        "own",
        "use fewer clones, with larger batches",
    ),
    warns_if="warn",
)
boxes_too_large = Wording(
    _TOO_LARGE,
    text="{ops:about} ops with which the first worker takes the gradients of {workers:,}",
    notes=(_WHY, _ONLY_SHOWN),
    help="use fewer workers, with more clones each, or `mode = async`",
    warns_if="warn",
)

# --- conditions and forecasts -----------------------------------------------------------------------------

_CONDITIONS = {
    "imbalance": ("TFD531", "spread the variables with `balanced(...)`"),
    "memory": ("TFD532", "use smaller batches, or more devices"),
    "traffic": ("TFD533", "place what is sent beside what uses it"),
    "ops": ("TFD534", "place the ops elsewhere"),
    "step_time": ("TFD536", "move work from the critical path to devices that wait, or make it smaller"),
    "busy": ("TFD537", None),
}
"""The codes of conditions that do not hold, and what to do if a figure is too large."""

time_unknown = Wording(
    "TFD538: {condition:quoted} cannot be compared with anything",
    text="nothing was measured here, and no hardware is named",
    help="run `tfdeploy calibrate` on this spec, or give the `kind` of the devices in `devices`",
)
link_without_effect = Wording(
    "warning TFD516: `link` has no effect",
    text="no tensor is copied between these devices",
    notes=("CPU devices of one process hand tensors to each other without a copy",),
    help="leave it out",
)
bad_profile = Placeless(
    "TFD755: {path:in_full} is not a profile of a machine: it {reason}",
    help="write a new one with `tfdeploy calibrate`",
)
link_not_measured = Placeless(
    "TFD756: the link between two processes of this machine cannot be measured",
    notes=("{reason}",),
    help="end what keeps these processes from starting or from reaching each other, and calibrate again",
)
bad_trace = Placeless(
    "TFD757: {path:in_full} is not the trace of a run: it {reason}",
    help="run the spec with `--profile`, and give `profile/trace.json` of the run directory",
)
bad_map = Placeless(
    "TFD758: {path:in_full} is not a placement map: it {reason}",
    help="write one with `tfdeploy plan SPEC --json`, or give the spec itself",
)
nothing_named = Placeless(
    "TFD759: {name:quoted} names no op or variable", notes=("the nearest names are {nearest?:alternatives}",)
)


def not_met(
    condition: Condition, figure: str, contributions: Sequence[str], setting: str | None = None
) -> Diagnostic:
    """Return the diagnostic of a condition that does not hold, with what makes up the figure.

    Args:
        setting: A setting of `update` with which the condition would hold, if one is known.
    """
    code, advice = _CONDITIONS[condition.function]
    if setting is not None:
        advice = f"it would hold with {quoted(f'update {{ {setting} }}')}"
    return Diagnostic(
        code,
        f"{quoted(condition.text)} does not hold",
        condition.span,
        f"it is {figure}",
        notes=tuple(contributions),
        help=advice if condition.operator in {"<", "<="} else None,
    )
