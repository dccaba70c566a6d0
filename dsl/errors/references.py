"""TFD4xx: references to things that do not exist or are of another kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsl.diagnostics import Diagnostic, Fix, Label
from dsl.errors.wording import Replacing, Wording, either
from dsl.errors.words import alternatives, joined, listed, options, quoted, similar, to_have
from dsl.source import Span
from dsl.values import FEATURE


def unknown_name(
    name: str,
    span: Span,
    kind: str,
    near: str | None,
    *,
    word: str | None = None,
    advice: str | None = None,
    known: Sequence[str] = (),
    words: Sequence[str] = (),
    wanted: str = "",
) -> Diagnostic:
    """Return the diagnostic of a name that is not defined.

    Args:
        name: The name.
        span: Its place.
        kind: What the name could be of, such as `constant`.
        near: The nearest name that is known here, or None.
        word: The nearest word that is allowed here, or None.
        advice: What to do, or None.
        known: The names that are known here.
        words: The words that are allowed here.
        wanted: What else can stand here, in words; may be empty.
    """
    hints = (*similar(kind, near), *similar("word", word)) or (
        *options(f"the {kind}s here are", known, name),
        *options("the words are", words, name),
        *((wanted,) if wanted else ()),
    )
    best = near or word
    return Diagnostic(
        "TFD401",
        f"nothing is called {quoted(name)} here",
        span,
        "unknown name",
        notes=hints,
        help=advice,
        fix=Fix.replacing(f"write {quoted(best)}", span, best) if best and not (near and word) else None,
    )


def cycle(kind: str, names: Sequence[str], span: Span, others: Iterable[Span]) -> Diagnostic:
    """Return the diagnostic of definitions, such as of a `constant`, that need each other in a circle."""
    if len(names) == 1:
        message = f"the {kind} {quoted(names[0])} needs itself"
        return Diagnostic("TFD403", message, span, "it is used in its own definition")
    return Diagnostic(
        "TFD403",
        f"the {kind}s {listed(names[:8])} need each other",
        span,
        "the circle starts here",
        labels=tuple(Label(other, "and comes through here") for other in others)[:7],
    )


def unknown_function(
    kind: str,
    name: str,
    span: Span,
    near: str | None,
    known: Sequence[str] = (),
    advice: str | None = None,
) -> Diagnostic:
    """Return the diagnostic of a call of something that there is not.

    Args:
        kind: What the function should be, such as `layer`.
        name: Its name.
        span: The place of the name.
        near: The nearest name of this kind, or None.
        known: The names of this kind, if they are few.
        advice: What to do, or None.
    """
    known_advice = {"layer": LAYERS, "transform": TRANSFORMS}.get(kind, {}).get(name)
    if known_advice is not None:
        near, advice = None, known_advice
    elif kind in {"function", "layer"} and (own := random_function(name)) is not None:
        near, advice = None, own
    return Diagnostic(
        "TFD404",
        f"there is no {kind} {quoted(name)}",
        span,
        f"unknown {kind}",
        notes=similar(kind, near)
        or (() if advice else _FORMS.get(kind) or options(f"the {kind}s are", known, name)),
        help=advice,
        fix=Fix.replacing(f"write {quoted(near)}", span, near) if near else None,
    )


def random_function(name: str) -> str | None:
    """Return what to do without a function of random numbers such as `ops.random.normal`; None for others."""
    return _RANDOM if "random" in name.split(".")[:-1] else None


_RANDOM = (
    "layers draw random numbers: `x -> GaussianNoise(0.1)`, `Dropout(0.5)`, or a layer of yours by "
    '`python("module:function")`'
)
_OWN_SOURCE = 'do it in a source of yours, `python("module:function")`'
TRANSFORMS = {
    "apply": f"{_OWN_SOURCE}, whose function returns a dataset of tf.data",
    "batch": "the batch is given by `batch` or `global_batch` in `clones`",
    "concatenate": 'name all files in the source, as in `csv("part-*.csv", ...)`',
    "enumerate": _OWN_SOURCE,
    "filter": f"leave the examples out of the file, or {_OWN_SOURCE}",
    "flat_map": _OWN_SOURCE,
    "from_tensor_slices": "arrays come from a file: `npz(...)`",
    "group_by_window": "`bucket` puts examples of similar lengths together",
    "bucket_by_sequence_length": "write `bucket(name, boundaries = [16, 32])`",
    "interleave": 'name all files in the source, as in `csv("part-*.csv", ...)`, and `shuffle` behind it',
    "map": f"transforms change tensors one by one, layers of the model do the rest; else {_OWN_SOURCE}",
    "padded_batch": "`pad(name)` fills up each batch; `batch` in `clones` says how large it is",
    "prefetch": "leave it out: batches are always made ahead",
    "rebatch": "the batch is given by `batch` or `global_batch` in `clones`",
    "repeat": "leave it out: `epochs` or `steps` in `train` say how often the examples are read",
    "shard": "leave it out: each worker reads a part of its own",
    "snapshot": "write `cache()`",
    "unbatch": "a source gives single examples; `batch` in `clones` puts them together",
    "window": f"store the windows in the file, one in each example, or {_OWN_SOURCE}",
    "zip": "a source gives all tensors of an example: put them into one file, such as an `.npz` archive",
}
"""What to do without the methods of tf.data that are no transforms."""

_FORMS = {
    "layer": ("a layer is a class of Keras, `applications.NAME`, or a `layer` block of this spec",),
    "loss": ("a loss is a class of Keras such as `MeanSquaredError`",),
    "metric": ("a metric is a class of Keras such as `MeanAbsoluteError`",),
    "feature": (f"the tensors of the examples are written as in `x = {FEATURE}`",),
}

other_kind = Wording("TFD404", "there is no {kind} {name:quoted}", text="this is {found:article}")


def unknown_argument(
    callee: str,
    name: str,
    span: Span | None,
    near: str | None,
    known: Sequence[str],
    others: Sequence[str] = (),
) -> Diagnostic:
    """Return the diagnostic of a keyword that a call does not take.

    Args:
        callee: The name of the function.
        name: The keyword.
        span: The place of the keyword, or None.
        near: The nearest argument that the function takes, or None.
        known: The arguments that the function takes.
        others: The names of functions of the same kind that take this keyword, if this one does not.
    """
    takes = f"{quoted(callee)} takes {alternatives(known, name) if known else 'no arguments'}"
    elsewhere = (f"{joined([quoted(each) for each in others])} take {quoted(name)}",) if others else ()
    update = ELSEWHERE.get(name)
    advice = _FROZEN if name == "trainable" else update and f"write {quoted(update)} in the block `update`"
    near = near if advice is None else None
    return Diagnostic(
        "TFD405",
        f"{quoted(callee)} has no argument {quoted(name)}",
        span,
        "unknown argument",
        notes=similar("argument", near) or (takes, *elsewhere),
        help=advice,
        fix=Fix.replacing(f"write {quoted(near)}", span, near) if near and span is not None else None,
    )


_FROZEN = (
    "give `trainable = false` to a step of the model, or name what is frozen in the block `update`: "
    '`freeze = ["backbone/*"]`'
)
_NO_FUNCTIONS = (
    "a spec holds no Python: write it with layers such as `Rescaling(1 / 255)` or `Multiply()`, or take it "
    'from a module, `python("module:function")`, whose function returns a Keras layer'
)

LEFT_OUT = (
    "a spec leaves out the functions of Keras that do not make a tensor with a row for each example of a "
    'batch: call it in a Keras layer of your own, `python("module:MyLayer")`'
)
"""What to do about a function of `keras.ops` that the language does not have."""

LAYERS = {
    "Lambda": _NO_FUNCTIONS,
    "Input": "an input is a binding: `image = input(float32, [28, 28, 1])`",
    "InputLayer": "an input is a binding: `image = input(float32, [28, 28, 1])`",
    "Sequential": "layers follow each other by `->`: `logits = image -> Flatten() -> Dense(10)`",
    "Model": "layers follow each other by `->`: `logits = image -> Flatten() -> Dense(10)`",
    "Linear": "write `Dense(...)`",
    "Conv2d": "write `Conv2D(...)`",
    "Equalization": "Keras can make no model of it: write `AutoContrast()`",
    "ReduceMean": "write `GlobalAveragePooling1D()`, or `2D`, or `3D`",
    "Resize": "write `Resizing(height, width)`",
}
"""What to write instead of layers that the language does not have."""

ELSEWHERE = {
    "clipnorm": "clip = norm(x)",
    "clipvalue": "clip = value(x)",
    "global_clipnorm": "clip = global_norm(x)",
    "use_ema": "ema = 0.99",
    "ema_momentum": "ema = 0.99",
    "ema_overwrite_frequency": "ema = 0.99",
    "loss_scale_factor": "precision = mixed_float16",
    "gradient_accumulation_steps": "accumulate = 2",
}
"""Arguments of Keras's optimizers that a spec says with an attribute of `update`, whatever the optimizer."""

too_many_arguments = Wording(
    "TFD405",
    either(
        "{if:most}{callee:quoted} takes {most:counted argument} by position, and {given:d} {given:is} given",
        "{callee:quoted} takes no arguments by position, and {given:d} {given:is} given",
    ),
    text="one too many",
    notes=("by position it takes {names?:listed}",),
)
positional_after_keyword = Wording(
    "TFD405",
    "an argument without a name comes after one with a name",
    text="give this one its name, or move it to the front",
)


def missing_argument(
    callee: str, names: Sequence[str], span: Span, others: Sequence[str] = (), tensor: str = ""
) -> Diagnostic:
    """Return the diagnostic of arguments that a call cannot do without.

    Args:
        callee: The function.
        names: The arguments that are missing, in their order.
        span: Where the function is named.
        others: All arguments of the function, in their order.
        tensor: How a further keyword argument is written if it names a tensor; empty if none does.
    """
    plural = "s" if len(names) > 1 else ""
    return Diagnostic(
        "TFD406",
        f"{quoted(callee)} lacks the argument{plural} {listed(names)}",
        span,
        f"{listed(names)} {'are' if plural else 'is'} missing",
        notes=(f"every keyword but {listed(others)} names a tensor of the examples",) if tensor else (),
        help=f"write it as in `{callee}({names[0].upper()}, {tensor})`" if tensor else None,
    )


repeated_argument = Wording(
    "TFD407",
    "{callee:quoted} gets {name:quoted} twice",
    text="given again",
    places={"first": "first given here"},
)
wrong_reference = Wording(
    "TFD408",
    "{name:quoted} is {found}, not {wanted}",
    text="expected {wanted}",
    places={"defined?": "defined here"},
    help="{advice?}",
)


def input_without_data(
    name: str, split: str, span: Span, source: Span, near: str | None, known: Sequence[str]
) -> Diagnostic:
    """Return the diagnostic of a model's input for which a split has no tensor.

    Args:
        name: The name of the input.
        split: The name of the split.
        span: The place of the input in the model.
        source: The place of the source of the split.
        near: The nearest name among its tensors, or None.
        known: The names of its tensors.
    """
    return Diagnostic(
        "TFD409",
        f"the examples of {quoted(split)} have no tensor {quoted(name)}",
        source,
        f"its tensors are {alternatives(known, name)}" if known else "it has no tensors",
        labels=(Label(span, "the model reads it here"),),
        notes=similar("tensor", near),
        help=to_have(name, near),
    )


def labels_as_numbers(
    name: str, target: str, sparse: str | None, span: Span | None, defined: Span | None
) -> Diagnostic:
    """Return the diagnostic of a loss or metric of one-hot targets with a whole number for each example.

    Args:
        name: The name of the loss or metric.
        target: The name of the target.
        sparse: The name of the loss or metric for such targets; None if there is none.
        span: The place of the call of the loss or metric in the spec; None if it is not known.
        defined: The place at which the target is defined; None if it is not known.
    """
    instead = f"write {quoted(sparse)}, which takes" if sparse else "take a loss that takes"
    only = Span(span.source, span.start, span.start + len(name)) if span is not None else None
    only = only if only is not None and only.text == name else None
    return Diagnostic(
        "TFD410",
        f"{quoted(name)} compares with a one-hot target, and {quoted(target)} is one whole number",
        only or span,
        "takes one number for each class",
        labels=() if defined is None else (Label(defined, "one number for each example"),),
        help=f"{instead} the number of the class",
        fix=Fix.replacing(f"write {quoted(sparse)}", only, sparse) if sparse and only else None,
    )


def unknown_tensor(name: str, span: Span, near: str | None, known: Sequence[str]) -> Diagnostic:
    """Return the diagnostic of a transform of a tensor that the examples do not have."""
    return Diagnostic(
        "TFD401",
        f"the examples have no tensor {quoted(name)}",
        span,
        "unknown tensor",
        notes=similar("tensor", near) or options("their tensors are", known, name),
        help=None if near else to_have(name, None),
        fix=Fix.replacing(f"write {quoted(near)}", span, near) if near else None,
    )


not_called = Wording(
    "TFD408",
    either(
        "the {kind} {written?:quoted} is named but not called",
        "the {kind} {name:quoted} is named but not called",
    ),
    text="expected `(` after this",
    help="write `{name}()`",
    fix=Replacing("add the brackets", "{name}()"),
)
repeat_arguments = Wording(
    "TFD406",
    "`repeat` takes a count and a layer",
    text="expected two arguments",
    help="write it as in `repeat(3, Dense(64))`",
)
repeat_shared = Wording(
    "TFD408",
    "`repeat` makes copies with weights of their own, and this layer is one that is shared",
    text="expected a layer to be made",
    help="write the step several times to share its weights, or repeat a call such as `Dense(64)`",
)
shared_block = Wording(
    "TFD411",
    "`layer` shares one layer or one `layer` block, and {name:quoted} is neither",
    text="expected one layer, such as `Dense(64)`",
    help="put it into a `layer` block, and share that",
)
layer_arguments = Wording(
    "TFD406",
    "`layer` takes one layer",
    text="expected one argument",
    help="write it as in `shared = layer(Dense(64))`",
)
