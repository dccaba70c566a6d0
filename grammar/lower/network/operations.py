"""Tensors as values: arithmetic, indices, functions of `keras.ops`, and arguments of a layer's call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from dsl import ir, syntax
from dsl.errors import layers, references
from dsl.instead import LEFT_OUT
from dsl.ir.model import names_in
from dsl.schema import Type, signatures
from dsl.schema import types as kinds
from dsl.source import Span
from dsl.suggest import nearest
from grammar.lower import values
from grammar.lower.context import BAD, Context
from grammar.lower.evaluate import evaluate, misplaced_value

PREFIX = "ops."
MOST_SIGNS = 100
"""The most signs of a sum or product of tensors, each of which is an operation on what is before it."""
FUNCTIONS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}


@frozen
class Tensors:
    """The bindings of a `model` or `layer` block."""

    context: Context
    # The kind of each binding: `input`, `tensor`, `shared` or `bad`.
    kinds: dict[str, str] = field(factory=dict)
    spans: dict[str, Span] = field(factory=dict)
    # Whether the block is the model, whose inputs are examples; those of a `layer` block can be free weights
    # too.
    of_model: bool = False

    def has(self, name: str) -> bool:
        """Whether a name is of a tensor, or may be of one."""
        return self.kinds.get(name, "shared") != "shared"

    def is_example(self, name: str) -> bool:
        """Whether a name is of an input of the model."""
        return self.of_model and self.kinds.get(name) == "input"


def is_operation(written: syntax.Node, tensors: Tensors) -> bool:
    """Whether an expression computes with tensors."""
    match written:
        case syntax.Call():
            return written.callee.name.startswith(PREFIX)
        case syntax.Path():
            first, *more = written.segments
            return not more and first.index is not None and tensors.has(first.name)
        case syntax.Chain() | syntax.Negative():
            return _has_tensor(written, tensors)
        case syntax.Indexed():
            return True
    return False


def _has_tensor(written: syntax.Node, tensors: Tensors) -> bool:
    match written:
        case syntax.Path():
            return tensors.has(written.segments[0].name)
        case syntax.Chain() | syntax.Negative() | syntax.List():
            return any(_has_tensor(each, tensors) for each in syntax.parts_of(written))
        case syntax.Flow():
            return True
    return is_operation(written, tensors)


@frozen
class Operations:
    """Reads operations of one model or `layer` block, whose tensors `read_tensor` reads."""

    tensors: Tensors
    read_tensor: Callable[[syntax.Expr], Any]

    @property
    def _context(self) -> Context:
        return self.tensors.context

    def read(self, written: syntax.Expr) -> Any:
        """Return an Operation or an Index; BAD if something in it is wrong."""
        match written:
            case syntax.Call():
                return self._call(written)
            case syntax.Path():
                return self._index_of_name(written)
            case syntax.Indexed():
                return self._index(written.operand, written.index.items, None, written.span)
            case syntax.Negative():
                operand = self._operand(written.operand)
                return BAD if operand is BAD else ir.Operation("negative", (operand,), span=written.span)
            case syntax.Chain():
                return self._chain(written)
        raise TypeError(f"{type(written).__name__} is no operation")

    def _chain(self, written: syntax.Chain) -> Any:
        """Return the operations of a chain, from the left; numbers before its first tensor are one number."""
        if len(written.rest) > MOST_SIGNS:
            return self._context.refuse(
                layers.chain_too_long(written.rest[MOST_SIGNS][1].span, most=MOST_SIGNS)
            )
        parts = [written.first, *(part for _, part in written.rest)]
        begin = next((at for at, part in enumerate(parts) if _has_tensor(part, self.tensors)), 0)
        if begin > 1:
            first: syntax.Expr = syntax.Chain(
                written.first, written.rest[: begin - 1], span=parts[0].span.to(parts[begin - 1].span)
            )
            result, rest = self._operand(first), written.rest[begin - 1 :]
        else:
            result, rest = self._operand(written.first), written.rest
        for operator, part in rest:
            operand = self._operand(part)
            if result is BAD or operand is BAD:
                result = BAD
            else:
                span = written.first.span.to(part.span)
                result = ir.Operation(FUNCTIONS[operator], (result, operand), span=span)
        return result

    def _operand(self, written: syntax.Expr) -> Any:
        """Return a tensor or a number of an arithmetic expression."""
        if _has_tensor(written, self.tensors) or not self._is_number(written):
            return self.read_tensor(written)
        return values.typed(written, kinds.number(), "arithmetic with tensors", self._context)

    def _is_number(self, written: syntax.Expr) -> bool:
        """Whether an expression without tensors may be a number; a name that is unknown may be a tensor."""
        if isinstance(written, syntax.Path) and written.bare is not None:
            return written.bare in self._context.constants or written.bare in self._context.parameters
        return isinstance(
            written, syntax.Number | syntax.Chain | syntax.Negative | syntax.Text | syntax.Constant
        )

    # --- indices

    def _index_of_name(self, path: syntax.Path) -> Any:
        (segment,) = path.segments
        written = segment.index
        parts = written.items if isinstance(written, syntax.TensorIndex) else (written,)
        name = syntax.Path(
            (syntax.Segment(segment.name, segment.name_span, span=segment.name_span),), span=segment.name_span
        )
        return self._index(name, parts, segment.name, path.span)

    def _index(self, operand: syntax.Expr, parts: tuple[Any, ...], name: str | None, span: Span) -> Any:
        """Return an Index, or BAD; `name` is the name of the tensor if it has one."""
        read = [self._part(each) for each in parts]
        tensor = self.read_tensor(operand)
        if tensor is BAD or any(each is BAD for each in read):
            return BAD
        index = ir.Index(tensor, tuple(read), span=span)
        # Of other tensors it is known only in the flat model whether they have examples.
        if not index.keeps_first and any(self.tensors.is_example(each) for each in names_in(tensor)):
            return self._context.refuse(layers.batch_indexed(span, name=name))
        return index

    def _part(self, written: Any) -> Any:
        match written:
            case syntax.Rest():
                return ir.Rest(span=written.span)
            case syntax.Slice():
                ends = [self._end(each) for each in (written.first, written.last, written.step)]
                return BAD if any(each is BAD for each in ends) else ir.Slice(*ends, span=written.span)
            case syntax.Every() | syntax.Range():
                return self._context.refuse(layers.index_of_device(written.span))
            case syntax.Constant(value=None):
                return None
        return self.read_tensor(written) if _has_tensor(written, self.tensors) else self._end(written)

    def _end(self, written: syntax.Expr | None) -> Any:
        if written is None:
            return None
        return values.typed(written, kinds.integer(), "an index of a tensor", self._context)

    # --- functions

    def _call(self, call: syntax.Call) -> Any:
        name = call.callee.name.removeprefix(PREFIX)
        signature = signatures.find("operation", name)
        if call.given:
            return self._context.refuse(layers.no_call_arguments(call.given[0].span, name=call.callee.name))
        if signature is None:
            left_out = name in signatures.words("left_out_operation")
            last = name.rpartition(".")[2]  # of `ops.nn.relu`, which is `ops.relu` as well
            near = None if left_out else last if signatures.find("operation", last) else None
            near = near or (None if left_out else nearest(name, signatures.names("operation")))
            return self._context.refuse(
                references.unknown_function(
                    "function",
                    call.callee.name,
                    call.callee.span,
                    near=near and PREFIX + near,
                    advice=LEFT_OUT if left_out else None,
                )
            )
        bound = values.bound(call, signature, self._context, self._argument)
        if bound is BAD:
            return BAD
        return ir.Operation(name, bound.args, bound.kwargs, span=call.span)

    def _argument(self, written: syntax.Expr, wanted: Type, what: str) -> Any:
        """Return an argument of a function: a tensor, a list of tensors, or a plain value."""
        if wanted.kind == "any" and isinstance(written, syntax.List) and _has_tensor(written, self.tensors):
            items = [self._argument(each, wanted, what) for each in written.items]
            return BAD if any(each is BAD for each in items) else ir.Group(tuple(items), span=written.span)
        may_be_tensor = isinstance(written, syntax.Path) and not self._is_number(written)
        if wanted.kind == "any" and (may_be_tensor or _has_tensor(written, self.tensors)):
            return self.read_tensor(written)
        if wanted.kind == "any" and isinstance(written, syntax.Call | syntax.Comparison):
            return misplaced_value(written, what, "a tensor or a value", self._context)
        if wanted.kind == "any":
            return evaluate(written, self._context)
        return values.typed(written, wanted, what, self._context)

    def given(self, call: syntax.Call) -> Any:
        """Return the arguments of a layer's own call by name; BAD if one is wrong."""
        found: dict[str, Any] = {}
        spans: dict[str, Any] = {}
        for argument in call.given:
            name = argument.name
            if name is None:
                return self._context.refuse(references.positional_after_keyword(argument.span))
            if name in spans:
                return self._context.refuse(
                    references.repeated_argument(
                        argument.name_span or argument.span,
                        callee=call.callee.name,
                        name=name,
                        first=spans[name],
                    )
                )
            spans[name] = argument.name_span
            what = f"`{name}` of the call of `{call.callee.name}`"
            found[name] = self._argument(argument.value, _CALL_ARGUMENTS.get(name, kinds.ANY), what)
        return BAD if any(each is BAD for each in found.values()) else found


_CALL_ARGUMENTS = {"training": kinds.boolean(), "use_causal_mask": kinds.boolean()}
