"""TFD5xx: errors in a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.making import error, warning
from dsl.errors.words import counted, joined, listed
from dsl.source import Span


def uneven_batch(global_batch: int, clones: int, span: Span | None, rounds: int = 1) -> Diagnostic:
    """Report a global batch that the clones, with their micro-batches, cannot share evenly.

    Args:
        global_batch: The number of examples of a step.
        clones: The number of clones.
        span: The place of `global_batch` in the spec; None if it is not known.
        rounds: The number of micro-batches of each clone.
    """
    parts = clones * rounds
    below = global_batch // parts * parts
    nearest = [str(each) for each in (below, below + parts) if each > 0]
    among = f"{clones} clones" if rounds == 1 else f"{clones} clones with {rounds} micro-batches each"
    return error(
        "TFD501",
        f"a global batch of {global_batch} does not divide evenly among {among}",
        span,
        text=f"{global_batch} / {parts} leaves {global_batch % parts}",
        help=f"use {' or '.join(nearest)}, or give `batch` a list with one number for each clone",
    )


def batch_list_length(given: int, clones: int, span: Span | None) -> Diagnostic:
    """Report a list of batches whose length is not the number of clones.

    Args:
        given: The length of the list.
        clones: The number of clones.
        span: The place of the list in the spec; None if it is not known.
    """
    return error(
        "TFD502",
        f"`batch` lists {counted(given, 'number')} for {counted(clones, 'clone')}",
        span,
        text=f"{given} here",
        help=f"give {counted(clones, 'number')}, or one number for all clones",
    )


def too_many_steps(total: int, most: int, span: Span | None) -> Diagnostic:
    """Report a model that stands for more steps than are made.

    Args:
        total: The number of its steps up to the end of `span`.
        most: The most steps that a model may have.
        span: The place in the spec up to which there are so many; None if it is not known.
    """
    many = f"{total:,}" if total < _COUNTABLE else "more than a million millions"
    return error(
        "TFD518",
        f"the model has more than {most:,} steps once `layer` blocks and `repeat` are written out",
        span,
        text=f"up to here it has {many}",
        notes=("each call of a layer, each operation and each use of a `layer` block is a step",),
    )


def blocks_too_deep(deepest: int, span: Span | None) -> Diagnostic:
    """Report `layer` blocks that use each other in too long a row.

    Args:
        deepest: The most blocks within each other.
        span: The place of the use that is too deep in the spec; None if it is not known.
    """
    what = f"`layer` blocks are used within each other more than {deepest} deep"
    return error("TFD518", what, span, text=f"level {deepest + 1}")


def expressions_too_deep(span: Span | None) -> Diagnostic:
    """Report expressions and `layer` blocks within each other beyond all measure.

    Args:
        span: The place of the model, or of the file, in the spec; None if it is not known.
    """
    what = "expressions and `layer` blocks are nested too deeply within each other"
    return error("TFD518", what, span, help="give parts of the expressions names of their own")


_COUNTABLE = 10**12


def no_device(what: str, text: str, span: Span | None) -> Diagnostic:
    """Report a rule or default whose target names no device at all.

    Args:
        what: What is to be placed, for the message.
        text: The rule or default.
        span: The place of the target in the spec; None if it is not known.
    """
    return error(
        "TFD503",
        f"there is no device for {what}",
        span,
        text="names no device",
        notes=(f"the placement is `{text}`",),
        help="declare the devices in `devices`, or use devices that are there",
    )


def device_not_present(ref: str, span: Span | None, found: Sequence[str]) -> Diagnostic:
    """Report a declared device that this machine does not have.

    Args:
        ref: The device or devices that are missing.
        span: The place of the declaration in the spec; None if it is not known.
        found: The devices that the machine has.
    """
    there = ", ".join(f"`{each}`" for each in found) or "none"
    return error(
        "TFD504",
        f"this machine has no `{ref}`",
        span,
        notes=(f"devices found: {there}",),
        help="use `--emulate` to put every declared device on a logical CPU of its own, or change `devices`",
    )


def shape_mismatch(
    step: str, shapes: Sequence[str], reason: str, span: Span | None, advice: str | None = None
) -> Diagnostic:
    """Report a step of the model that cannot take the shapes that reach it, the batch axis left out.

    Args:
        step: The name of the step.
        shapes: The types and shapes that reach it, as text.
        reason: Why it cannot take them, as a sentence; it may be empty.
        span: The place of the step in the spec; None if it is not known.
        advice: What to do about it; None if there is no advice.
    """
    reach = " and ".join(f"`{each}`" for each in shapes)
    return error(
        "TFD506",
        f"`{step}` cannot be applied here",
        span,
        text=f"gets {reach}",
        notes=(reason,) if reason else (),
        help=advice,
    )


def free_axis(
    step: str,
    shapes: Sequence[str],
    reason: str,
    axes: Sequence[tuple[str, Span | None]],
    span: Span | None,
) -> Diagnostic:
    """Report a step whose weights depend on an axis without a fixed size.

    Args:
        step: The step.
        shapes: The shapes that reach it, in words.
        reason: What depends on the size.
        axes: The axes of inputs that are `none`, in words, and where each input is written.
        span: The place of the step in the spec.
    """
    reach = " and ".join(f"`{each}`" for each in shapes)
    return error(
        "TFD506",
        f"`{step}` cannot be applied here",
        span,
        text=f"gets {reach}",
        labels=tuple(Label(at, f"{words} has no fixed size") for words, at in axes if at is not None),
        notes=(reason,),
        help="give the input a size, to which `pad(..., to = SIZE)` fills the examples; or take a layer that "
        "joins all positions, such as `GlobalAveragePooling1D()`",
    )


def wrong_rank(
    step: str, shape: Sequence[int | None], dtype: str, wanted: int, span: Span | None, *, at_least: bool
) -> Diagnostic:
    """Report a step that takes tensors of another rank.

    Args:
        step: The name of the step.
        shape: The shape that reaches it, without the batch axis; an axis of unknown size is None.
        dtype: The type that reaches it.
        wanted: The number of axes that it takes, without the batch axis.
        span: The place of the step in the spec; None if it is not known.
        at_least: Whether it also takes more axes.
    """
    more = "or more " if at_least else ""
    sizes = ", ".join("?" if each is None else str(each) for each in shape)
    missing = wanted - len(shape)
    if missing <= 0:
        advice = "make one axis of several before it: `-> Flatten()`, or `-> Reshape([...])`"
    else:
        example = ", ".join([sizes, *["1"] * missing]) if sizes else ", ".join(["1"] * missing)
        advice = (
            f"give it more axes before: `-> Reshape([{example}])`, or leave out the `Flatten()` before it"
        )
    return error(
        "TFD506",
        f"`{step}` takes {counted(wanted, 'axis')} {more}for each example, not {len(shape)}".replace(
            "axiss", "axes"
        ),
        span,
        text=f"gets `{dtype} [{sizes}]`",
        help=advice,
    )


def shape_of_the_pass(
    step: str,
    trained: Sequence[int | None],
    evaluated: Sequence[int | None],
    span: Span | None,
    failed: Span | None,
) -> Diagnostic:
    """Report a step whose shape in evaluation, with which the model cannot go on, is not that of training.

    Args:
        step: The step.
        trained: The shape of its output in training, without the batch axis.
        evaluated: The shape in evaluation.
        span: The place of the step in the spec.
        failed: The place of the step after it that cannot use the shape in evaluation.
    """
    before, now = (
        f"`[{', '.join('?' if n is None else str(n) for n in each)}]`" for each in (trained, evaluated)
    )
    crop = step.rpartition(".")[2] == "RandomCrop"
    return error(
        "TFD593",
        f"`{step}` gives {before} in training and {now} in evaluation, which the model cannot use",
        span,
        text="another shape in evaluation",
        labels=() if failed is None or failed == span else (Label(failed, f"cannot use {now}"),),
        help="crop examples in the data: `random_crop` in `train`, and `center_crop` in the other splits"
        if crop
        else "use a layer that gives the same shape in both, or change the examples in the data",
    )


def tensor_too_large(name: str, shape: Sequence[int], most: int, span: Span | None) -> Diagnostic:
    """Report a step or an input of which one example has more numbers than TensorFlow can count.

    Args:
        name: The name of the step or input.
        shape: The shape of the tensor, without the batch axis.
        most: The most numbers that a tensor may have.
        span: The place of the step or input in the spec; None if it is not known.
    """
    return error(
        "TFD506",
        f"a tensor of `{name}` has more than {most:,} numbers for each example",
        span,
        text=f"gives `[{', '.join(map(str, shape))}]`",
        notes=("TensorFlow counts the numbers of a tensor in 32 bits in many places",),
    )


def batch_too_large(batch: int, name: str, shape: Sequence[int], most: int, span: Span | None) -> Diagnostic:
    """Report a batch of a clone with which a tensor has more numbers than TensorFlow can count.

    Args:
        batch: The number of examples of the clone.
        name: The name of the step or input.
        shape: The shape of the tensor, without the batch axis.
        most: The most numbers that a tensor may have.
        span: The place of the step or input in the spec; None if it is not known.
    """
    sizes = ", ".join(map(str, (batch, *shape)))
    return error(
        "TFD506",
        f"a batch of {batch} is too large: a tensor of `{name}` would have more than {most:,} numbers",
        span,
        text=f"makes it `[{sizes}]`",
        notes=("TensorFlow counts the numbers of a tensor in 32 bits in many places",),
        help="give the clones fewer examples; `update { accumulate = ... }` adds up several batches",
    )


def weights_too_large(
    total: str, name: str, shape: Sequence[int], largest: str, reason: str, span: Span | None
) -> Diagnostic:
    """Report weights that cannot be held.

    Args:
        total: The size of all variables, as text.
        name: The name of the largest weight.
        shape: Its shape.
        largest: Its size, as text.
        reason: How much memory there is, as a sentence.
        span: The place of the layer of the largest weight in the spec; None if it is not known.
    """
    return error(
        "TFD546",
        f"the variables of the model take {total}, and {reason}",
        span,
        text=f"its `{name}` is `[{', '.join(map(str, shape))}]`, {largest}",
        help="make the layer smaller, or spread the variables over several machines",
    )


def batch_without_room(
    name: str, shape: Sequence[int], needed: str, reason: str, span: Span | None
) -> Diagnostic:
    """Report a batch with which one tensor and the variables need more than there is.

    Args:
        name: The name of the op whose output the tensor is.
        shape: The shape of the tensor, with the batch axis.
        needed: The size of the tensor, as text.
        reason: How much memory there is, as a sentence.
        span: The place of the batch in the spec; None if it is not known.
    """
    return error(
        "TFD546",
        f"a tensor of {needed} has no room beside the variables: {reason}",
        span,
        text="makes it this large",
        notes=(f"it is the output of `{name}`, `[{', '.join(map(str, shape))}]`",),
        help="use a smaller batch, or `accumulate` several of them",
    )


def layer_cannot_be_made(step: str, reason: str, span: Span | None) -> Diagnostic:
    """Report a layer, loss, metric or optimizer whose arguments Keras does not take.

    Args:
        step: The name of the layer, loss, metric or optimizer.
        reason: What Keras says.
        span: The place of the call in the spec; None if it is not known.
    """
    return error(
        "TFD507", f"`{step}` cannot be made with these arguments", span, text="here", notes=(reason,)
    )


def cannot_be_saved(what: str, reason: str, span: Span | None, *, own: bool = False) -> Diagnostic:
    """Report a model that can be trained, but not be saved and loaded again.

    Args:
        what: The step that is the reason, or the model.
        reason: What Keras says.
        span: The place of the step or of the model in the spec; None if it is not known.
        own: Whether the step is code of the user's.
    """
    return error(
        "TFD563",
        f"`{what}` can be trained, but not be saved and loaded",
        span,
        text="here",
        notes=(reason,),
        help="a class needs a `get_config` with all arguments of its `__init__`, among them `**kwargs`; "
        "a function must be at the top of its module"
        if own
        else None,
    )


def no_optimizer(span: Span | None) -> Diagnostic:
    """Report a spec that is to be trained without an optimizer."""
    return error(
        "TFD508",
        "there is no optimizer to train with",
        span,
        help="write `update { optimizer = Adam(learning_rate = 1e-3) }`",
    )


def nothing_to_train_on(span: Span | None, missing: str, advice: str | None = None) -> Diagnostic:
    """Report a spec that is to be trained and lacks `data.train` or a length of training.

    Args:
        span: The place of the block to which it belongs in the spec; None if it is not known.
        missing: What is missing, for the message.
        advice: What to do about it; None if there is no advice.
    """
    return error("TFD509", f"there is no {missing}, which training needs", span, help=advice)


def no_training_data(
    span: Span | None, inputs: Mapping[str, int], missing: str = "`data.train`", *, block: bool
) -> Diagnostic:
    """Report a spec to be trained without `data.train`.

    `block` says that the spec has a block `data`, with other splits.

    Args:
        span: The place of the block `data` or the spec in the spec; None if it is not known.
        inputs: The rank of each input of the model, without the batch axis, by name.
        missing: What is missing, for the message.
        block: Whether the spec has a block `data`, with other splits.
    """
    if all(rank <= 1 for rank in inputs.values()):
        columns = [f'{name} = "{name}{"_*" if rank else ""}"' for name, rank in inputs.items()]
        source = f'csv("train.csv", {", ".join(columns)})'
    else:
        source = 'npz("train.npz")'
    line = f"train = {source}"
    return nothing_to_train_on(
        span, missing, f"add `{line}`" + (" to `data`" if block else ", in `data { ... }`")
    )


def no_gradient(variables: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a model none of whose weights the loss depends on.

    Args:
        variables: The names of the weights; none if the model has none.
        span: The place of the loss in the spec; None if it is not known.
    """
    listed = ", ".join(f"`{each}`" for each in variables[:5])
    return error(
        "TFD510",
        "the loss does not depend on any weight",
        span,
        notes=(f"weights: {listed}",) if variables else ("the model has no weights",),
        help="take the prediction of the loss from a layer with weights",
    )


def rule_matches_nothing(selector: str, names: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a rule whose glob matches no variable or op.

    Args:
        selector: The selector, as it is written.
        names: The nearest names.
        span: The place of the selector in the spec; None if it is not known.
    """
    nearest = ", ".join(f"`{each}`" for each in names)
    return error(
        "TFD511",
        f"`{selector}` matches nothing",
        span,
        text="no such name",
        notes=(f"the nearest names are {nearest}",) if names else (),
    )


def stray_op(op: str, device: str | None, reason: str, span: Span | None, more: int = 0) -> Diagnostic:
    """Report an op that no rule, default or resource has given a device, or that sits where it may not.

    `more` counts the other ops of which the same is true.

    Args:
        op: The name of the op.
        device: Where it is; None if it has no device.
        reason: Why that is wrong, as a sentence.
        span: The place of what put it there; None if it is not known.
        more: The number of other ops of which the same is true.
    """
    place = f"on `{device}`" if device else "without a device"
    return error(
        "TFD512",
        f"the op `{op}` is {place}: {reason}",
        span,
        text="placed by this" if span is not None else "",
        notes=(f"{more} more op{'s are' if more > 1 else ' is'} placed like this",) if more else (),
    )


def clones_exceed_group(size: int, devices: int, span: Span | None, label: Span | None) -> Diagnostic:
    """Report a group size that the set of devices cannot fill once.

    Args:
        size: The number of devices of a group.
        devices: The number of devices that there are.
        span: The place of the target in the spec; None if it is not known.
        label: The place of the block `devices`; None if the spec has none.
    """
    return error(
        "TFD513",
        f"a group of {size} devices cannot be made from {devices}",
        span,
        text=f"{devices} devices",
        labels=(Label(label, "the devices are declared here"),) if label is not None else (),
    )


def no_group_member(index: int, size: int, span: Span | None) -> Diagnostic:
    """Report `group[k]` if a clone has no device k.

    Args:
        index: The number k.
        size: The number of devices of a clone.
        span: The place of the target in the spec; None if it is not known.
    """
    owns = "one device" if size == 1 else f"{size} devices (0..{size - 1})"
    return error(
        "TFD514",
        f"`group[{index}]` does not exist",
        span,
        text=f"index {index}",
        notes=(f"each clone owns {owns}",),
        help=f"give clones larger groups: `clones -> groups(gpu[*], size = {index + 1})`",
    )


def ops_elsewhere(
    moves: Mapping[tuple[str, str], int], names: Sequence[str], span: Span | None
) -> Diagnostic:
    """Warn of ops that TensorFlow moved.

    Args:
        moves: How many ops moved, by the device that was asked for and the one on which they ran.
        names: The names of a few of them.
        span: The place of what permits TensorFlow to choose in the spec; None if it is not known.
    """
    total = sum(moves.values())
    moved = joined([f"{number:,} from `{old}` to `{new}`" for (old, new), number in moves.items()])
    return warning(
        "TFD515",
        f"{counted(total, 'op')} ran on another device than requested: {moved}",
        span,
        text="this lets TensorFlow choose" if span is not None else "",
        notes=(f"such as {listed(names)}", "`misplaced` in `placement.json` lists each of them"),
    )


def too_full(
    place: str,
    needed: str,
    excess: str,
    attribute: str,
    limit: str,
    notes: Sequence[str],
    span: Span | None,
) -> Diagnostic:
    """Warn of GPUs or machines whose forecast is above their memory.

    Args:
        place: The GPUs or machines, for the message.
        needed: The forecast, as text.
        excess: By how much it is too large, as text.
        attribute: The attribute that gives the memory, such as `gpu_memory`.
        limit: Its value, as text.
        notes: What takes the memory, a sentence each.
        span: The place of the attribute in the spec; None if it is not known.
    """
    return warning(
        "TFD535",
        f"a step needs {needed} on {place}, {excess} more than `{attribute}`",
        span,
        text=f"{limit} here",
        notes=tuple(notes),
        help="use smaller batches, spread the variables over more devices, or compute in `mixed_bfloat16`",
    )
