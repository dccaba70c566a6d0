"""TFD4xx: references to things that do not exist or are of another kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.wording import TO_HAVE, TO_NEAREST, Replacing, Wording, either, listed, quoted, unknown
from dsl.instead import ELSEWHERE, FORMS, FROZEN, LAYERS, TRANSFORMS, random_function
from dsl.source import Span
from dsl.suggest import nearest

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
    kind: str,
    name: str,
    span: Span,
    known: Sequence[str] = (),
    *,
    listed: bool = False,
    near: str | None = None,
    advice: str | None = None,
) -> Diagnostic:
    """Return the diagnostic of a call of something of a kind, such as `layer`, that there is not.

    If nothing `known` is similar, some of it is `listed`.
    """
    near = near or nearest(name, known)
    known_advice = {"layer": LAYERS, "transform": TRANSFORMS}.get(kind, {}).get(name)
    if known_advice is not None:
        near, advice = None, known_advice
    elif kind in {"function", "layer"} and (own := random_function(name)) is not None:
        near, advice = None, own
    form = FORMS.get(kind)
    shown = known if listed else ()
    return _unknown_function(span, kind=kind, name=name, near=near, form=form, known=shown, advice=advice)


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
    advice = FROZEN if name == "trainable" else update and f"write {quoted(update)} in the block `update`"
    near = near if advice is None else None
    return _unknown_argument(
        span, callee=callee, name=name, near=near, known=known, others=others, advice=advice
    )
