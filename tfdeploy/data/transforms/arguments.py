"""The arguments of a source or transform, by name and checked, with the span of each for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from attrs import frozen

from dsl.diagnostics import SpecError
from dsl.errors.running import running_data as errors
from dsl.suggest import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsl import ir
    from dsl.source import Span

MISSING = object()
"""Stands for an argument without a default."""


@frozen
class Arguments:
    """The arguments of a transform.

    Attributes:
        call: The transform as the spec has it.
        values: The values of its parameters by name, defaults included.
        others: The values of further keyword arguments by name.
        spans: Where each argument is written, by name; an argument with its default has none.
    """

    call: ir.Call
    values: Mapping[str, ir.Value]
    others: Mapping[str, ir.Value]
    spans: Mapping[str, Span]

    def span(self, name: str | None = None) -> Span | None:
        """Return the place of argument `name` in the spec, else that of the whole call."""
        return self.spans.get(name or "", self.call.span)

    def refuse(self, reason: str, name: str | None = None, advice: str | None = None) -> NoReturn:
        """Raise the SpecError of an argument that cannot be used.

        Args:
            reason: What is wrong, as the end of a sentence about the transform.
            name: The argument, whose place is shown; None shows the whole call.
            advice: What to write instead, if that is known.
        """
        raise SpecError([errors.bad_argument(self.call.name, reason, self.span(name), advice)])

    def _wrong(self, name: str, wanted: str) -> NoReturn:
        self.refuse(f"takes {wanted} as `{name}`", name)

    def text(self, name: str) -> str:
        """Return argument `name`, a string."""
        value = self.values[name]
        return value if isinstance(value, str) else self._wrong(name, "a string")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return argument `name`, a string or a list of strings, as a list."""
        return self.as_texts(name, self.values[name])

    def as_texts(self, name: str, value: ir.Value) -> tuple[str, ...]:
        """Return `value`, which argument `name` holds, as a list of strings.

        Args:
            name: The name of the argument, for the message.
            value: Its value: a string, or a list of strings of which there is at least one.
        """
        items = value if isinstance(value, tuple) else (value,)
        texts = tuple(item for item in items if isinstance(item, str))
        return (
            texts
            if texts and len(texts) == len(items)
            else self._wrong(name, "a string or a list of strings")
        )

    def integer(self, name: str, least: int = 0) -> int:
        """Return argument `name`, a whole number of at least `least`.

        Args:
            name: The name of the argument.
            least: The smallest number that is accepted.
        """
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self._wrong(name, f"a whole number from {least}")
        return value

    def number(self, name: str) -> float:
        """Return argument `name`, a number."""
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(name, "a number")
        return value

    def flag(self, name: str) -> bool:
        """Return argument `name`, true or false."""
        value = self.values[name]
        return value if isinstance(value, bool) else self._wrong(name, "true or false")

    def shape(self, name: str) -> tuple[int, ...]:
        """Return argument `name`, a list of sizes, which may be empty."""
        value = self.values[name]
        items = value if isinstance(value, tuple) else (value,)
        sizes = tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))
        if len(sizes) != len(items) or any(size < 1 for size in sizes):
            self._wrong(name, "a list of sizes from 1")
        return sizes

    def free_shape(self, name: str) -> tuple[int | None, ...]:
        """Return argument `name`, a list of sizes, of which some may be `none`."""
        value = self.values[name]
        items = value if isinstance(value, tuple) else (value,)
        sizes = tuple(each for each in items if each is None or (isinstance(each, int) and each is not True))
        if len(sizes) != len(items) or any(size is not None and size < 1 for size in sizes):
            self._wrong(name, "a list of sizes from 1, or `none`,")
        return sizes

    def word(self, name: str, choices: Sequence[str]) -> str:
        """Return argument `name`, one of `choices`.

        Args:
            name: The name of the argument.
            choices: The words that are accepted. If `none` is one of them, the value `none` of the language
                is that word.
        """
        value = self.values[name]
        if value is None and "none" in choices:
            return "none"
        if not isinstance(value, str) or value not in choices:
            self._wrong(name, "one of " + ", ".join(f"`{each}`" for each in sorted(choices)))
        return value


def bind(call: ir.Call, *, others: bool = False, **parameters: object) -> Arguments:
    """Bind the arguments of a call to parameters.

    Args:
        call: The call.
        others: Whether keywords that are no parameters are allowed.
        **parameters: The default of each parameter, in order; MISSING if it has none.

    Raises:
        SpecError: If arguments are missing or superfluous.
    """
    names = list(parameters)
    spans = dict(call.kwarg_spans)
    spans.update(zip(names, call.arg_spans, strict=False))
    bound = Arguments(call, {}, {}, spans)
    if len(call.args) > len(names):
        many = f"{len(names)} positional argument{'s' if len(names) != 1 else ''}"
        bound.refuse(f"takes {many if names else 'no positional arguments'}, not {len(call.args)}")
    values: dict[str, ir.Value] = dict(zip(names, call.args, strict=False))
    extra: dict[str, ir.Value] = {}
    for name, value in call.kwargs.items():
        if name in values:
            bound.refuse(f"is given `{name}` twice", name)
        if name in parameters:
            values[name] = value
        elif others:
            extra[name] = value
        else:
            near = nearest(name, names)
            bound.refuse(f"has no argument `{name}`", name, f"there is `{near}`" if near else None)
    for name, default in parameters.items():
        if name not in values:
            if default is MISSING:
                bound.refuse(f"lacks its argument `{name}`")
            values[name] = default  # type: ignore[assignment]  # defaults are values of the language
    return Arguments(call, values, extra, spans)
