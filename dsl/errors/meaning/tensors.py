"""Diagnostics of tensors as values: several outputs, operations, indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Label
from dsl.errors.making import error
from dsl.errors.words import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def several_outputs(step: str, count: int, span: Span | None, names: int = 1) -> Diagnostic:
    """Report a step with another number of outputs than the spec has names for.

    Args:
        step: The layer, function or block.
        count: How many outputs it has.
        span: Where it was written.
        names: How many names the spec gives to them.
    """
    shown = ", ".join(("first", "second", "third", "fourth")[:count]) + (", ..." if count > 4 else "")  # noqa: PLR2004
    one = "one output" if count == 1 else f"{count} outputs"
    return error(
        "TFD555",
        f"`{step}` has {one}, and {'one is' if names == 1 else f'{names} are'} expected here",
        span,
        text=one,
        help=f"give each output a name: `{shown} = ...`; `_` stands for one that you do not need"
        if count > 1
        else "write one name before the `=`",
    )


def chain_too_long(most: int, span: Span) -> Diagnostic:
    """A sum or product of very many tensors.

    Args:
        most: The most signs in a row.
        span: The place of the first operand beyond these in the spec.
    """
    return error(
        "TFD108",
        f"arithmetic with tensors has more than {most} signs in a row",
        span,
        text="one sign too many",
        help="give parts of it names of their own, or write `[a, b, c] -> Add()`",
    )


def constant_into_layer(step: str, span: Span | None) -> Diagnostic:
    """Report a layer whose input depends on no input of the model.

    Args:
        step: The name of the layer.
        span: The place of the layer in the spec; None if it is not known.
    """
    return error(
        "TFD560",
        f"`{step}` gets a tensor that depends on no input of the model",
        span,
        text="a layer works on examples, and this tensor has none",
        help="to learn a tensor that is the same for all examples, such as an embedding of positions, write "
        "`positions = weight([10, 64])`",
    )


def constant_weights(span: Span | None) -> Diagnostic:
    """Report weights of examples that depend on no input of the model."""
    return error(
        "TFD575",
        "these weights depend on no input of the model",
        span,
        text="all examples get the same weights",
        help="give an input of the model, or what is computed from one; a number as the factor of a loss is "
        "written before it: `0.5 * ([target, prediction] -> Loss())`",
    )


def no_class_weights(span: Span | None) -> Diagnostic:
    """Report an empty list of weights of classes."""
    return error(
        "TFD576",
        "there is no weight in `class_weight`",
        span,
        text="an empty list",
        help="write a number for each class, beginning with class 0: `class_weight = [1.0, 5.0]`",
    )


def outputs_alike(name: str, other: str, span: Span | None, other_span: Span | None = None) -> Diagnostic:
    """Report two outputs of a model whose columns in a table of predictions could have the same name.

    Args:
        name: The name of the second output.
        other: The name of the first output.
        span: The place of the second output in the spec; None if it is not known.
        other_span: The place of the first output; None if the outputs are predictions of losses.
    """
    short, long = sorted((name, other), key=len)
    return error(
        "TFD577",
        f"the outputs `{other}` and `{name}` cannot be told apart in a table",
        span,
        text="too much like another output" if other_span is not None else "",
        labels=(Label(other_span, "the other output"),) if other_span is not None else (),
        notes=(f"the columns of `{short}` are called `{short}_0`, `{short}_1`, ..., which may be `{long}`",),
        help="give one of them another name",
    )


def no_outputs(span: Span | None) -> Diagnostic:
    """Report an empty list of outputs."""
    return error(
        "TFD578",
        "this model would return nothing",
        span,
        text="no output",
        help="write a name for each output: `output = { probabilities = p, embedding = e }`",
    )


def constant_output(span: Span | None) -> Diagnostic:
    """Report an output that depends on no input of the model."""
    return error(
        "TFD579",
        "this output depends on no input of the model",
        span,
        text="it has no examples",
        help="an output has a value for each example: give what is computed from an input",
    )


def batch_indexed(name: str | None, span: Span | None) -> Diagnostic:
    """Report an index that chooses among the examples of a batch.

    Args:
        name: The name of the tensor; None if it has none.
        span: The place of the index in the spec; None if it is not known.
    """
    example = f", as in `{name}[:, 0]`," if name is not None else ""
    return error(
        "TFD561",
        f"this index chooses among the examples of {'this tensor' if name is None else f'`{name}`'}",
        span,
        text="the first axis is that of the batch",
        notes=("each clone has its own batch, so the result would depend on the number of clones",),
        help=f"begin with `:` for all examples{example} or with `...`",
    )


def unusable_index(reason: str, span: Span | None) -> Diagnostic:
    """Report an index by tensors that cannot be used.

    Args:
        reason: What is wrong with it.
        span: The place of the index in the spec; None if it is not known.
    """
    return error(
        "TFD553",
        "a tensor cannot be indexed in this way",
        span,
        text=reason,
        help="an index takes one tensor of whole numbers, beside `:`, slices and `...`, as in `table[ids]`; "
        "with `ops.take_along_axis(x, indices, axis = 1)` each example chooses from its own numbers",
    )


def joins_examples(function: str, made: str, span: Span | None, of: Sequence[str] = ()) -> Diagnostic:
    """Report an operation whose result has no examples along its first axis any more.

    Args:
        function: The operation.
        made: The shape of its result.
        span: The place of the operation in the spec; None if it is not known.
        of: The shapes of its tensors, if there is a weight among them; `batch` stands for the examples.
    """
    what = "this index" if function == "getitem" else f"`{function}`"
    if of:
        return error(
            "TFD561",
            f"the result of {what} has the shape `{made}`, whose first axis is not that of the batch",
            span,
            text=f"gets {listed(of)}",
            notes=("a weight has no axis for the batch; a tensor of examples has it first",),
            help="the result of an operation with examples must have them along its first axis, each of them "
            "computed by itself",
        )
    return error(
        "TFD561",
        f"{what} mixes the examples of a batch: its result has the shape `{made}`",
        span,
        text="the first axis is that of the batch",
        notes=("each clone has its own batch, so the result would depend on the number of clones",),
        help="leave the first axis as it is: `axis = -1`, or an index that begins with `:`",
    )


def several_losses(shape: Sequence[int | None], span: Span | None) -> Diagnostic:
    """Report a term of the loss that is a tensor with more than one number for an example.

    Args:
        shape: Its shape without the batch axis.
        span: Where it was written.
    """
    return error(
        "TFD590",
        "a term of the loss is one number for each example, and this tensor has the shape "
        f"`[{', '.join('?' if each is None else str(each) for each in shape)}]`",
        span,
        text="more than one number for an example",
        help="add the numbers or take their mean: `ops.sum(x, axis = -1)`, `ops.mean(x, axis = [1, 2])`",
    )


def constant_loss(span: Span | None) -> Diagnostic:
    """Report a term of the loss that depends on no input of the model."""
    return error(
        "TFD591",
        "this term of the loss depends on no input of the model",
        span,
        text="the same for all examples",
        help="for a penalty on weights, write `regularize = L2(1e-4)`",
    )


def no_prediction(span: Span | None) -> Diagnostic:
    """Report a model whose loss consists of tensors and that has no `output`."""
    return error(
        "TFD592",
        "the model does not say what it predicts",
        span,
        text="no term of this loss has a prediction",
        help="add `output = x`, the tensor that evaluation and the exported model give",
    )


def no_call_arguments(name: str, span: Span) -> Diagnostic:
    """Report arguments in second brackets of something whose call takes none.

    Args:
        name: What has the second brackets.
        span: The place of the first argument in the second brackets.
    """
    return error(
        "TFD562",
        f"`{name}` takes no arguments in second brackets",
        span,
        text="only a layer's own call takes these",
        help="write all arguments in the first brackets",
    )


def index_of_device(span: Span) -> Diagnostic:
    """Report a range of devices in the index of a tensor."""
    return error(
        "TFD301",
        "the index of a tensor takes `first:last`, not a range of devices",
        span,
        text="this is how devices are chosen",
        help="write `:` for all of an axis, and `1:3` for two places of it",
    )
