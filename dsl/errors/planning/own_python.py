"""TFD585 to TFD587 and TFD564: objects of a model that the user's Python makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error, warning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def wrong_result(path: str, wanted: str, found: str, span: Span | None) -> Diagnostic:
    """Report a function that returned something else than the place in the spec needs.

    Args:
        path: The function, written `module:function`.
        wanted: What it should have returned.
        found: The class of what it returned.
        span: The place of the call in the spec.
    """
    return error(
        "TFD585",
        f"`{path}` returned an object of class `{found}`",
        span,
        text="here",
        help=f"return {wanted}",
    )


def arguments_missing(path: str, names: Sequence[str], wanted: str, span: Span | None) -> Diagnostic:
    """Report a function with arguments that the spec does not give.

    Args:
        path: The function, written `module:function`.
        names: The arguments that have neither a default nor a value.
        wanted: What is needed at this place.
        span: The place of the call in the spec.
    """
    shown = " and ".join(f"`{each}`" for each in names)
    example = ", ".join(f"{each} = ..." for each in names)
    return error(
        "TFD585",
        f"`{path}` needs {shown}",
        span,
        text=f"gives no {shown}",
        notes=(f"at this place there must be {wanted}, or a function that returns one",),
        help=f'write `python("{path}", {example})`',
    )


def arguments_not_saved(path: str, wanted: str, span: Span | None) -> Diagnostic:
    """Report arguments for a function of which a saved model keeps only the name.

    Args:
        path: The function, written `module:function`.
        wanted: What is needed at this place.
        span: The place of the call in the spec.
    """
    return error(
        "TFD585",
        f"the arguments of `{path}` would be lost in the exported model",
        span,
        text="is a function, of which Keras saves the name",
        notes=(f"at this place there must be {wanted}",),
        help="write a class with `__init__`, `__call__` and `get_config`, or give the arguments defaults; an "
        "activation with arguments is a subclass of `keras.Layer`",
    )


def raised(step: str, reason: str, place: str | None, span: Span | None) -> Diagnostic:
    """Report an exception of the user's own code.

    Args:
        step: The step or object that runs the code.
        reason: The exception and its message.
        place: The file, the number of the line and the line where it was raised, or None if not known.
        span: The place of the step in the spec.
    """
    at = () if place is None else (f"raised at {place}",)
    return error("TFD586", f"the Python code of `{step}` raised {reason}", span, text="run by this", notes=at)


def not_summable(path: str, reason: str, span: Span | None) -> Diagnostic:
    """Report a metric whose state over two batches is not the sum of its states over each.

    Args:
        path: The function, written `module:function`.
        reason: What about its state is different.
        span: The place of the call in the spec.
    """
    return error(
        "TFD587",
        f"the state of the metric `{path}` cannot be added up",
        span,
        text="here",
        notes=(
            reason,
            "each clone updates a state of its own from zero, and the states of all clones are added",
        ),
        help="let `update_state` only add to the state, and compute the rest in `result`",
    )


def undeclared_state(layer: str, state: str, join: str, span: Span | None) -> Diagnostic:
    """Warn of a state of a layer of the user's that does not say how clones join it.

    Args:
        layer: The class of the layer.
        state: The name of the state.
        join: How it is joined, `first` or `mean`.
        span: The place of the step.
    """
    kept = "the value of clone 0 is kept" if join == "first" else "the mean over the clones is kept"
    return warning(
        "TFD564",
        f"`{layer}` does not say how clones join its state `{state}`",
        span,
        notes=(f"each clone changes it by its own examples, and {kept}",),
        help='write `self.add_weight(..., aggregation="sum")` if changes are to be added up, `"mean"` or '
        '`"only_first_replica"`',
    )
