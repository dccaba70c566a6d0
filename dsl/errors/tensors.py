"""Tensors as values: several outputs, operations, indices; and what changes or mixes examples."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.diagnostics import Diagnostic
from dsl.errors.wording import Wording
from dsl.source import Span

chain_too_long = Wording(
    "TFD108: arithmetic with tensors has more than {most:d} signs in a row",
    text="one sign too many",
    help="give parts of it names of their own, or write `[a, b, c] -> Add()`",
)
constant_into_layer = Wording(
    "TFD560: `{step}` gets a tensor that depends on no input of the model",
    text="a layer works on examples, and this tensor has none",
    help="to learn a tensor that is the same for all examples, such as an embedding of positions, write "
    "`positions = weight([10, 64])`",
)
constant_weights = Wording(
    "TFD575: these weights depend on no input of the model",
    text="all examples get the same weights",
    help="give an input of the model, or what is computed from one; a number as the factor of a loss is "
    "written before it: `0.5 * ([target, prediction] -> Loss())`",
)
no_class_weights = Wording(
    "TFD576: there is no weight in `class_weight`",
    text="an empty list",
    help="write a number for each class, beginning with class 0: `class_weight = [1.0, 5.0]`",
)
_outputs_alike = Wording(
    "TFD577: the outputs `{other}` and `{name}` cannot be told apart in a table",
    text="{if:other_span?}too much like another output",
    places={"other_span?": "the other output"},
    notes=("the columns of `{short}` are called `{short}_0`, `{short}_1`, ..., which may be `{long}`",),
    help="give one of them another name",
)
no_outputs = Wording(
    "TFD578: this model would return nothing",
    text="no output",
    help="write a name for each output: `output = {{ probabilities = p, embedding = e }}`",
)
constant_output = Wording(
    "TFD579: this output depends on no input of the model",
    text="it has no examples",
    help="an output has a value for each example: give what is computed from an input",
)
batch_indexed = Wording(
    "TFD561: this index chooses among the examples of {name?:|`{name}`|this tensor}",
    text="the first axis is that of the batch",
    notes=("each clone has its own batch, so the result would depend on the number of clones",),
    help="begin with `:` for all examples{name?:|, as in `{name}[:, 0]`,|} or with `...`",
)
unusable_index = Wording(
    "TFD553: a tensor cannot be indexed in this way",
    text="{reason}",
    help="an index takes one tensor of whole numbers, beside `:`, slices and `...`, as in `table[ids]`; "
    "with `ops.take_along_axis(x, indices, axis = 1)` each example chooses from its own numbers",
)
_joins_examples = Wording(
    "TFD561: {what} mixes the examples of a batch: its result has the shape `{made}`",
    text="the first axis is that of the batch",
    notes=("each clone has its own batch, so the result would depend on the number of clones",),
    help="leave the first axis as it is: `axis = -1`, or an index that begins with `:`",
)
_joins_weights = Wording(
    "TFD561: the result of {what} has the shape `{made}`, whose first axis is not that of the batch",
    text="gets {of:listed}",
    notes=("a weight has no axis for the batch; a tensor of examples has it first",),
    help="the result of an operation with examples must have them along its first axis, each of them "
    "computed by itself",
)
several_losses = Wording(
    "TFD590: a term of the loss is one number for each example, and this tensor has the shape "
    "`{shape:sizes}`",
    text="more than one number for an example",
    help="add the numbers or take their mean: `ops.sum(x, axis = -1)`, `ops.mean(x, axis = [1, 2])`",
)
constant_loss = Wording(
    "TFD591: this term of the loss depends on no input of the model",
    text="the same for all examples",
    help="for a penalty on weights, write `regularize = L2(1e-4)`",
)
no_prediction = Wording(
    "TFD592: the model does not say what it predicts",
    text="no term of this loss has a prediction",
    help="add `output = x`, the tensor that evaluation and the exported model give",
)
no_call_arguments = Wording(
    "TFD562: `{name}` takes no arguments in second brackets",
    text="only a layer's own call takes these",
    help="write all arguments in the first brackets",
)
index_of_device = Wording(
    "TFD301: the index of a tensor takes `first:last`, not a range of devices",
    text="this is how devices are chosen",
    help="write `:` for all of an axis, and `1:3` for two places of it",
)
random_in_evaluation = Wording(
    "TFD316: `{transform}` changes examples at random, and `{split}` is not for training",
    text="for `train` only",
    help="{crops:|write `center_crop` with the same size|leave it out of `{split}`}",
)
random_before_cache = Wording(
    "TFD317: `{transform}` before `cache` would change an example in the same way in every pass",
    text="computed only once",
    places={"cache?": "keeps what is before it"},
    help="put `{transform}` after `cache()`",
)
mixing_layer = Wording(
    "TFD561: `{layer}` mixes each image with others of its batch, and does not mix their labels",
    text="depends on how examples are divided among clones",
    help="mix examples in the data: `-> mixup(image, label)` after the other transforms of `train`",
)


def several_outputs(step: str, count: int, span: Span | None, names: int = 1) -> Diagnostic:
    """Return the diagnostic of a step with another number of outputs than the spec has names for."""
    shown = ", ".join(("first", "second", "third", "fourth")[:count]) + (", ..." if count > 4 else "")  # noqa: PLR2004
    one = "one output" if count == 1 else f"{count} outputs"
    return Diagnostic(
        "TFD555",
        f"`{step}` has {one}, and {'one is' if names == 1 else f'{names} are'} expected here",
        span,
        one,
        help=f"give each output a name: `{shown} = ...`; `_` stands for one that you do not need"
        if count > 1
        else "write one name before the `=`",
    )


def outputs_alike(name: str, other: str, span: Span | None, other_span: Span | None = None) -> Diagnostic:
    """Return the diagnostic of two outputs whose columns in a table of predictions could have one name."""
    short, long = sorted((name, other), key=len)
    return _outputs_alike(span, name=name, other=other, short=short, long=long, other_span=other_span)


def joins_examples(function: str, made: str, span: Span | None, of: Sequence[str] = ()) -> Diagnostic:
    """Return the diagnostic of an operation, with weights `of` these shapes, whose result has no examples."""
    what = "this index" if function == "getitem" else f"`{function}`"
    return (
        _joins_weights(span, what=what, made=made, of=of)
        if of
        else _joins_examples(span, what=what, made=made)
    )
