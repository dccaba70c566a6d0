"""TFD4xx: references to things that do not exist or are of another kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.wording import TO_HAVE, TO_NEAREST, Replacing, Wording, either, listed, quoted, unknown
from dsl.source import Span
from dsl.values import FEATURE

unknown_name = Wording(
    "TFD401: nothing is called {name:quoted} here",
    text="unknown name",
    notes=(
        "there is {kind:article} with a similar name: {near?:quoted}",
        "there is a word with a similar name: {word?:quoted}",
        "{unless:near}{unless:word}the {kind}s here are {known?:alternatives {name}}",
        "{unless:near}{unless:word}the words are {words?:alternatives {name}}",
        "{unless:near}{unless:word}{wanted?}",
    ),
    help="{advice?}",
    fix=Replacing(
        either("{unless:word}write {near?:quoted}", "{unless:near}write {word?:quoted}"),
        either("{near?}", "{word?}"),
    ),
)

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
    "zip": "a source gives all tensors of an example: put them into one file, such as an `.npz` archive",
}
"""What to do without the methods of tf.data that are no transforms."""

_FORMS = {
    "layer": "a layer is a class of Keras, `applications.NAME`, or a `layer` block of this spec",
    "loss": "a loss is a class of Keras such as `MeanSquaredError`",
    "metric": "a metric is a class of Keras such as `MeanAbsoluteError`",
    "feature": f"the tensors of the examples are written as in `x = {FEATURE}`",
}
_unknown_function = Wording(
    "TFD404: there is no {kind} {name:quoted}",
    text="unknown {kind}",
    notes=(
        either(
            "there is {kind:article} with a similar name: {near?:quoted}",
            "{unless:advice?}{form?}",
            "{unless:advice?}the {kind}s are {known?:alternatives {name}}",
        ),
    ),
    help="{advice?}",
    fix=TO_NEAREST,
)
_unknown_argument = Wording(
    "TFD405: {callee:quoted} has no argument {name:quoted}",
    text="unknown argument",
    notes=(
        "there is an argument with a similar name: {near?:quoted}",
        "{unless:near?}{callee:quoted} takes {known?:|{known:alternatives {name}}|no arguments}",
        "{unless:near?}{others?:listed} take {name:quoted}",
    ),
    help="{advice?}",
    fix=TO_NEAREST,
)
other_kind = Wording("TFD404: there is no {kind} {name:quoted}", text="this is {found:article}")

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
    "TFD405: {callee:quoted} takes {most:|{most:counted argument}|no arguments} by position, and {given:d} "
    "{given:is} given",
    text="one too many",
    notes=("by position it takes {names?:listed}",),
)
positional_after_keyword = Wording(
    "TFD405: an argument without a name comes after one with a name",
    text="give this one its name, or move it to the front",
)
missing_argument = Wording(
    "TFD406: {callee:quoted} lacks the {names:plural argument} {names:listed}",
    text="{names:listed} {names:is} missing",
    notes=("{if:tensor}every keyword but {others?:listed} names a tensor of the examples",),
    help="write it as in `{callee}({names:first upper}, {tensor?})`",
)
repeated_argument = Wording(
    "TFD407: {callee:quoted} gets {name:quoted} twice",
    text="given again",
    places={"first": "first given here"},
)
wrong_reference = Wording(
    "TFD408: {name:quoted} is {found}, not {wanted}",
    text="expected {wanted}",
    places={"defined?": "defined here"},
    help="{advice?}",
)
input_without_data = Wording(
    "TFD409: the examples of {split:quoted} have no tensor {name:quoted}",
    text="{known?:|its tensors are {known:alternatives {name}}|it has no tensors}",
    places={"reader": "the model reads it here"},
    notes=("there is a tensor with a similar name: {near?:quoted}",),
    help=TO_HAVE,
)
labels_as_numbers = Wording(
    "TFD410: {name:quoted} compares with a one-hot target, and {target:quoted} is one whole number",
    text="takes one number for each class",
    places={"defined?": "one number for each example"},
    help="{sparse?:|write {sparse:quoted}, which takes|take a loss that takes} the number of the class",
    fix=Replacing("{if:fits}write {sparse?:quoted}", "{sparse?}"),
)
unknown_tensor = unknown(
    "TFD401: the examples have no tensor {name:quoted}",
    "tensor",
    "their tensors are {known?:alternatives {name}}",
    help="{unless:near}" + TO_HAVE[1],
)
not_called = Wording(
    either(
        "TFD408: the {kind} {written?:quoted} is named but not called",
        "TFD408: the {kind} {name:quoted} is named but not called",
    ),
    text="expected `(` after this",
    help="write `{name}()`",
    fix=Replacing("add the brackets", "{name}()"),
)
repeat_arguments = Wording(
    "TFD406: `repeat` takes a count and a layer",
    text="expected two arguments",
    help="write it as in `repeat(3, Dense(64))`",
)
repeat_shared = Wording(
    "TFD408: `repeat` makes copies with weights of their own, and this layer is one that is shared",
    text="expected a layer to be made",
    help="write the step several times to share its weights, or repeat a call such as `Dense(64)`",
)
shared_block = Wording(
    "TFD411: `layer` shares one layer or one `layer` block, and {name:quoted} is neither",
    text="expected one layer, such as `Dense(64)`",
    help="put it into a `layer` block, and share that",
)
layer_arguments = Wording(
    "TFD406: `layer` takes one layer",
    text="expected one argument",
    help="write it as in `shared = layer(Dense(64))`",
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
    kind: str, name: str, span: Span, near: str | None, known: Sequence[str] = (), advice: str | None = None
) -> Diagnostic:
    """Return the diagnostic of a call of something of a kind, such as `layer`, that there is not."""
    known_advice = {"layer": LAYERS, "transform": TRANSFORMS}.get(kind, {}).get(name)
    if known_advice is not None:
        near, advice = None, known_advice
    elif kind in {"function", "layer"} and (own := random_function(name)) is not None:
        near, advice = None, own
    form = _FORMS.get(kind)
    return _unknown_function(span, kind=kind, name=name, near=near, form=form, known=known, advice=advice)


def random_function(name: str) -> str | None:
    """Return what to do without a function of random numbers such as `ops.random.normal`; None for others."""
    return _RANDOM if "random" in name.split(".")[:-1] else None


def unknown_argument(
    callee: str,
    name: str,
    span: Span | None,
    near: str | None,
    known: Sequence[str],
    others: Sequence[str] = (),
) -> Diagnostic:
    """Return the diagnostic of a keyword that a call does not take, and functions that do are `others`."""
    update = ELSEWHERE.get(name)
    advice = _FROZEN if name == "trainable" else update and f"write {quoted(update)} in the block `update`"
    near = near if advice is None else None
    return _unknown_argument(
        span, callee=callee, name=name, near=near, known=known, others=others, advice=advice
    )
