"""TFD3xx: values with a wrong type, unit or size, and arithmetic without a result."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.wording import TO_NEAREST, Replacing, Wording, counted, either, in_full, listed, quoted
from dsl.source import Span
from dsl.suggest import nearest
from dsl.values import EXAMPLES, NOUNS, Dimension, units_of

_FEW = 6
_MOST = 3

wrong_type = Wording(
    "TFD301: {what} takes {takes}, not {found}", text="this is {found}", help="{advice?}", labelled=True
)
unknown_unit = Wording(
    "TFD303: there is no unit {unit:quoted}",
    text="unknown unit",
    notes=(
        "there is a unit with a similar name: {near?:quoted}",
        f"{{unless:near}}sizes have {listed(units_of('bytes'))}",
        f"{{unless:near}}durations have {listed(units_of('seconds'))}, and percentages `%`",
    ),
)
wrong_unit = Wording("TFD303: {what} takes {takes}, not {found}", text="this is {found}", labelled=True)
out_of_range = Wording(
    "TFD305: {what} must be {bounds}, not {found:quoted}", text="out of range", labelled=True
)
list_length = Wording(
    "TFD305: {what} takes one number, or a list of {wanted:d}, not of {found:d}",
    text="{found:counted item}",
    labelled=True,
)
not_in_a_clone = Wording(
    "TFD594: {what} must be `{only:|true|false}`",
    text="cannot work here",
    notes=("a clone keeps nothing but weights and statistics from one batch for the next",),
    help="leave it out",
    labelled=True,
)
empty_string = Wording("TFD305: {what} must not be empty", text="nothing in it", labelled=True)
descending_range = Wording(
    "TFD305: a range runs from the smaller number to the larger one",
    text="this one is empty",
    notes=("ranges include both ends",),
    help="write `{last:d}..{first:d}`",
)
range_too_long = Wording("TFD305: this range is too long", notes=("the longest has {longest:,} numbers",))
no_result = Wording("TFD306: {why}", text="this has no result", labelled=True)
input_of_layer = Wording(
    "TFD405: the input of a layer takes whatever the layer is given",
    text="expected `input()`",
    help="write `input()`",
    fix=Replacing("write `input()`", "input()", safe=True),
)
several_tensors = Wording(
    "TFD301: {what} takes one tensor, not a list",
    text="this is a list",
    help="put the tensors together first, as in `[a, b] -> Concatenate()`, or name one of them",
)
steps_before_loss = Wording(
    "TFD301: a {kind} takes its tensors as they are",
    text="a step before the {kind}",
    help="bind what this step gives to a name first",
)

_SAMPLES = {"loss": "MeanSquaredError", "metric": "Accuracy"}
_OF_MORE = {
    "loss": "losses of several pairs are added up: "
    "`([a, b] -> MeanSquaredError()) + 0.5 * ([a, c] -> MeanSquaredError())`",
    "metric": "each pair has a metric of its own",
}


def missing_unit(what: str, dimension: Dimension, span: Span, labels: tuple[Label, ...] = ()) -> Diagnostic:
    """Return the diagnostic of a plain number where `what` takes a quantity."""
    units = units_of(dimension)
    many = f"the units of {NOUNS[dimension]} are {listed(units)}"
    return Diagnostic(
        "TFD302",
        f"{what} takes {NOUNS[dimension]}, and this number has no unit",
        span,
        "a unit is missing",
        labels=labels,
        notes=(many if len(units) > 1 else f"the unit is `{units[0]}`",),
        help=f"write it as in `{EXAMPLES[dimension]}`",
    )


_invalid_choice = Wording(
    "TFD304: {what} cannot be {found:quoted}",
    text="{few:|expected {words:listed or}|not one of the words}",
    notes=(
        either(
            "there is a word with a similar name: {near?:quoted}",
            "{unless:few}the words are {words:alternatives {found}}",
        ),
    ),
    fix=TO_NEAREST,
    labelled=True,
)


def invalid_choice(
    what: str, found: str, words: Sequence[str], span: Span, labels: tuple[Label, ...] = ()
) -> Diagnostic:
    """Return the diagnostic of a word, `found`, that is not among those which `what` takes."""
    near, few = nearest(found, words), len(words) <= _FEW
    return _invalid_choice(span, labels=labels, what=what, found=found, words=words, near=near, few=few)


def address(what: str, found: str, span: Span | None, labels: tuple[Label, ...] = ()) -> Diagnostic:
    """Return the diagnostic of an address such as `gs://bucket/x` where `what` takes a path."""
    rest = found.partition("://")[2]
    local = found.startswith("file://")
    return Diagnostic(
        "TFD308",
        f"{what} takes a path of this machine, not the address {quoted(found)}",
        span,
        "no path" if span is not None else "",
        labels=labels,
        notes=() if local else ("files are read and written by the file system of this machine alone",),
        help=f"write {quoted(rest)}"
        if local and rest
        else "mount what it names as a folder and give its path, or copy the files"
        f"; a local folder of this name is {in_full(f'./{found}')}",
    )


def sizes_of_free_axes(sizes: int, free: int, span: Span | None) -> Diagnostic:
    """Return the diagnostic of an `assume` with another number of sizes than the input has axes `none`."""
    axes = {0: "no axis of this input is", 1: "one axis of this input is"}.get(free, f"{free} axes are")
    return Diagnostic(
        "TFD305",
        f"`assume` gives {counted(sizes, 'size')}, and {axes} `none`",
        span,
        "another number of sizes",
        help="give one size for each `none` of the shape, or one for all"
        if free
        else "leave `assume` out: forecasts use the sizes of the shape",
    )


def loss_expected(kind: str, found: str, span: Span) -> Diagnostic:
    """Return the diagnostic of something that is no loss or metric, as `kind` says."""
    sample = f"`[target, prediction] -> {_SAMPLES[kind]}()`"
    message = f"a {kind} is a flow, not {found}"
    return Diagnostic("TFD301", message, span, f"this is {found}", help=f"write it as in {sample}")


def pair_expected(kind: str, span: Span, given: int) -> Diagnostic:
    """Return the diagnostic of a loss or metric that gets another number of tensors than it takes."""
    sample = f"`[target, prediction] -> {_SAMPLES[kind]}()`"
    more = given > _MOST
    return Diagnostic(
        "TFD301",
        f"a {kind} takes two tensors, or three with weights" + (f", and {given} are given" if more else ""),
        span,
        "expected `[target, prediction]` or `[target, prediction, weight]`",
        notes=(_OF_MORE[kind],) if more else (),
        help=f"put tensors together by layers first, such as `[a, b] -> Concatenate()`, or write {sample}"
        if more
        else f"write it as in {sample}",
    )


def brackets_around_flows(kind: str, span: Span) -> Diagnostic:
    """Return the diagnostic of `a -> F() + b -> G()`, which reads as `a -> (F() + b) -> G()`, in a `kind`."""
    sample = _SAMPLES[kind]
    return Diagnostic(
        "TFD301",
        "`->` binds less tightly than `+` and `*`",
        span,
        "all of this is read as one step",
        help=f"put each flow in round brackets: `([a, b] -> {sample}()) + 0.5 * ([a, c] -> {sample}())`",
    )
