"""TFD3xx: values with a wrong type, unit or size, and arithmetic without a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.making import error, replacing
from dsl.errors.meaning.names import similar
from dsl.errors.words import counted, in_full, joined, listed, options, quoted
from dsl.values import EXAMPLES, NOUNS, Dimension, units_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.source import Span

_FEW = 6
_MOST = 3


def wrong_type(
    what: str, takes: str, found: str, span: Span, labels: tuple[Label, ...] = (), advice: str | None = None
) -> Diagnostic:
    """A value of a type that its place does not take.

    Args:
        what: What takes the value, such as an attribute, for the message.
        takes: What it takes, for the message.
        found: What the value is, for the message.
        span: The place of the value in the spec.
        labels: Notes at other places, such as at the definition of a constant.
        advice: What to do about it; None if there is no advice.
    """
    return error(
        "TFD301",
        f"{what} takes {takes}, not {found}",
        span,
        text=f"this is {found}",
        labels=labels,
        help=advice,
    )


def misplaced_expression(
    what: str, takes: str, found: str, span: Span, advice: str | None = None
) -> Diagnostic:
    """An expression of a kind that its place does not take.

    Args:
        what: What takes the value, such as an attribute, for the message.
        takes: What it takes, for the message.
        found: What the expression is, for the message.
        span: The place of the expression in the spec.
        advice: What to do about it; None if there is no advice.
    """
    return error("TFD301", f"{what} takes {takes}, not {found}", span, text=f"this is {found}", help=advice)


def missing_unit(what: str, dimension: Dimension, span: Span, labels: tuple[Label, ...] = ()) -> Diagnostic:
    """A plain number in place of a quantity.

    Args:
        what: What takes the value, such as an attribute, for the message.
        dimension: What it takes: bytes, seconds or a fraction.
        span: The place of the number in the spec.
        labels: Notes at other places, such as at the definition of a constant.
    """
    units = units_of(dimension)
    return error(
        "TFD302",
        f"{what} takes {NOUNS[dimension]}, and this number has no unit",
        span,
        text="a unit is missing",
        labels=labels,
        notes=(
            f"the units of {NOUNS[dimension]} are {listed(units)}"
            if len(units) > 1
            else f"the unit is `{units[0]}`",
        ),
        help=f"write it as in `{EXAMPLES[dimension]}`",
    )


def unknown_unit(unit: str, span: Span, near: str | None) -> Diagnostic:
    """A unit that there is not.

    Args:
        unit: The unit as it is written.
        span: The place of the unit in the spec.
        near: The known name that is probably meant; None if none is similar.
    """
    return error(
        "TFD303",
        f"there is no unit {quoted(unit)}",
        span,
        text="unknown unit",
        notes=similar("unit", near)
        or (
            f"sizes have {listed(units_of('bytes'))}",
            f"durations have {listed(units_of('seconds'))}, and percentages `%`",
        ),
    )


def wrong_unit(what: str, takes: str, found: str, span: Span, labels: tuple[Label, ...] = ()) -> Diagnostic:
    """A quantity of another dimension, or in place of a plain number.

    Args:
        what: What takes the value, such as an attribute, for the message.
        takes: What it takes, for the message.
        found: What the value is, for the message.
        span: The place of the value in the spec.
        labels: Notes at other places, such as at the definition of a constant.
    """
    return error("TFD303", f"{what} takes {takes}, not {found}", span, text=f"this is {found}", labels=labels)


def invalid_choice(
    what: str, found: str, words: Sequence[str], near: str | None, span: Span, labels: tuple[Label, ...] = ()
) -> Diagnostic:
    """A word that is not among those allowed.

    Args:
        what: What takes the word, such as an attribute, for the message.
        found: The word as it is written.
        words: The words that are allowed.
        near: The known name that is probably meant; None if none is similar.
        span: The place of the word in the spec.
        labels: Notes at other places, such as at the definition of a constant.
    """
    few = len(words) <= _FEW
    expected = f"expected {joined([quoted(word) for word in words], 'or')}" if few else "not one of the words"
    return error(
        "TFD304",
        f"{what} cannot be {quoted(found)}",
        span,
        text=expected,
        labels=labels,
        notes=similar("word", near) or (() if few else options("the words are", words, found)),
        fix=replacing(f"write {quoted(near)}", span, near) if near else None,
    )


def out_of_range(
    what: str, bounds: str, found: str, span: Span, labels: tuple[Label, ...] = ()
) -> Diagnostic:
    """A number beyond the bounds.

    Args:
        what: What takes the number, such as an attribute, for the message.
        bounds: What it must be, such as `at least 1`.
        found: The number as it is shown.
        span: The place of the number in the spec.
        labels: Notes at other places, such as at the definition of a constant.
    """
    return error(
        "TFD305", f"{what} must be {bounds}, not {quoted(found)}", span, text="out of range", labels=labels
    )


def list_length(what: str, wanted: int, found: int, span: Span, labels: tuple[Label, ...] = ()) -> Diagnostic:
    """A list with too many or too few items.

    Args:
        what: What takes the list, such as an argument, for the message.
        wanted: How many items it has.
        found: How many there are.
        span: The place of the list in the spec.
        labels: Notes at other places, such as at the definition of a constant.
    """
    message = f"{what} takes one number, or a list of {wanted}, not of {found}"
    return error("TFD305", message, span, text=counted(found, "item"), labels=labels)


def not_in_a_clone(what: str, only: bool, span: Span, labels: tuple[Label, ...] = ()) -> Diagnostic:
    """A truth value with which an object cannot be in the graph of a clone.

    Args:
        what: The argument, for the message.
        only: The value that it has to have.
        span: The place of the value in the spec.
        labels: Notes at other places, such as at the definition of a constant.
    """
    words = "true" if only else "false"
    return error(
        "TFD594",
        f"{what} must be `{words}`",
        span,
        text="cannot work here",
        labels=labels,
        notes=("a clone keeps nothing but weights and statistics from one batch for the next",),
        help="leave it out",
    )


def empty_string(what: str, span: Span, labels: tuple[Label, ...] = ()) -> Diagnostic:
    """A string without a character in place of a name.

    Args:
        what: What takes the string, such as an attribute, for the message.
        span: The place of the string in the spec.
        labels: Notes at other places, such as at the definition of a constant.
    """
    return error("TFD305", f"{what} must not be empty", span, text="nothing in it", labels=labels)


def address(what: str, found: str, span: Span | None, labels: tuple[Label, ...] = ()) -> Diagnostic:
    """An address such as `gs://bucket/x` in place of a path.

    Args:
        what: What takes the path, such as an attribute, for the message.
        found: The address as it is written.
        span: The place of the address in the spec; None if it is from the command line.
        labels: Notes at other places, such as at the definition of a constant.
    """
    rest = found.partition("://")[2]
    local = found.startswith("file://")
    return error(
        "TFD308",
        f"{what} takes a path of this machine, not the address {quoted(found)}",
        span,
        text="no path" if span is not None else "",
        labels=labels,
        notes=() if local else ("files are read and written by the file system of this machine alone",),
        help=f"write {quoted(rest)}"
        if local and rest
        else "mount what it names as a folder and give its path, or copy the files"
        f"; a local folder of this name is {in_full(f'./{found}')}",
    )


def sizes_of_free_axes(sizes: int, free: int, span: Span | None) -> Diagnostic:
    """Report an `assume` of an input that does not have one size for each axis that is `none`.

    Args:
        sizes: The number of sizes that `assume` gives.
        free: The number of axes that are `none`.
        span: The place of `assume` in the spec; None if it is not known.
    """
    axes = {0: "no axis of this input is", 1: "one axis of this input is"}.get(free, f"{free} axes are")
    return error(
        "TFD305",
        f"`assume` gives {sizes} size{'s' if sizes != 1 else ''}, and {axes} `none`",
        span,
        text="another number of sizes",
        help="give one size for each `none` of the shape, or one for all"
        if free
        else "leave `assume` out: forecasts use the sizes of the shape",
    )


def descending_range(span: Span, first: int, last: int) -> Diagnostic:
    """`3..0`.

    Args:
        span: The place of the range.
        first: Its first number.
        last: Its last number, which is smaller.
    """
    return error(
        "TFD305",
        "a range runs from the smaller number to the larger one",
        span,
        text="this one is empty",
        notes=("ranges include both ends",),
        help=f"write `{last}..{first}`",
    )


def range_too_long(span: Span, longest: int) -> Diagnostic:
    """A range of millions.

    Args:
        span: The place of the range in the spec.
        longest: The most numbers that a range may have.
    """
    return error("TFD305", "this range is too long", span, notes=(f"the longest has {longest:,} numbers",))


def no_result(why: str, span: Span | None, labels: tuple[Label, ...] = ()) -> Diagnostic:
    """Arithmetic on what cannot be calculated with, or division by zero.

    Args:
        why: Why there is no result, as a sentence.
        span: The place of the expression in the spec; None if it is not known.
        labels: Notes at other places, such as at the definition of a constant.
    """
    return error("TFD306", why, span, text="this has no result", labels=labels)


def input_of_layer(span: Span) -> Diagnostic:
    """`input(float32, [8])` in a `layer` block."""
    return error(
        "TFD405",
        "the input of a layer takes whatever the layer is given",
        span,
        text="expected `input()`",
        help="write `input()`",
        fix=replacing("write `input()`", span, "input()", safe=True),
    )


def loss_expected(kind: str, found: str, span: Span) -> Diagnostic:
    """Something that is no loss or metric.

    Args:
        kind: `loss` or `metric`.
        found: What the expression is, for the message.
        span: The place of the expression in the spec.
    """
    return error(
        "TFD301",
        f"a {kind} is a flow, not {found}",
        span,
        text=f"this is {found}",
        help=f"write it as in `[target, prediction] -> {_SAMPLES[kind]}()`",
    )


def several_tensors(what: str, span: Span) -> Diagnostic:
    """A list in place of one tensor, such as the output of a model.

    Args:
        what: What takes the tensor, for the message.
        span: The place of the list in the spec.
    """
    return error(
        "TFD301",
        f"{what} takes one tensor, not a list",
        span,
        text="this is a list",
        help="put the tensors together first, as in `[a, b] -> Concatenate()`, or name one of them",
    )


def pair_expected(kind: str, span: Span, given: int) -> Diagnostic:
    """A loss or metric that does not get a target and a prediction.

    Args:
        kind: `loss` or `metric`.
        span: The place of the tensors in the spec.
        given: The number of tensors that it gets.
    """
    sample = f"`[target, prediction] -> {_SAMPLES[kind]}()`"
    more = given > _MOST
    return error(
        "TFD301",
        f"a {kind} takes two tensors, or three with weights" + (f", and {given} are given" if more else ""),
        span,
        text="expected `[target, prediction]` or `[target, prediction, weight]`",
        notes=(_OF_MORE[kind],) if more else (),
        help=f"put tensors together by layers first, such as `[a, b] -> Concatenate()`, or write {sample}"
        if more
        else f"write it as in {sample}",
    )


def steps_before_loss(kind: str, span: Span) -> Diagnostic:
    """Layers between the pair and the loss.

    Args:
        kind: `loss` or `metric`.
        span: The place of the first of these layers in the spec.
    """
    return error(
        "TFD301",
        f"a {kind} takes its tensors as they are",
        span,
        text=f"a step before the {kind}",
        help="bind what this step gives to a name first",
    )


def brackets_around_flows(kind: str, span: Span) -> Diagnostic:
    """Flows without brackets in a sum: `a -> F() + b -> G()`, which reads as `a -> (F() + b) -> G()`.

    Args:
        kind: `loss` or `metric`.
        span: The place of the step as which the rest is read.
    """
    sample = _SAMPLES[kind]
    return error(
        "TFD301",
        "`->` binds less tightly than `+` and `*`",
        span,
        text="all of this is read as one step",
        help=f"put each flow in round brackets: `([a, b] -> {sample}()) + 0.5 * ([a, c] -> {sample}())`",
    )


_SAMPLES = {"loss": "MeanSquaredError", "metric": "Accuracy"}
_OF_MORE = {
    "loss": "losses of several pairs are added up: "
    "`([a, b] -> MeanSquaredError()) + 0.5 * ([a, c] -> MeanSquaredError())`",
    "metric": "each pair has a metric of its own",
}
