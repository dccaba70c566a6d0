"""The names of a spec: where each is defined and used, over all files of the spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from attrs import define, field, frozen
from lsprotocol import types

from dsl import schema, syntax
from dsl.ir import SPLITS
from dsl.source import Source, Span
from grammar.lower.network.operations import PREFIX
from tfdeploy.lsp.documents import Document, Documents

Kind: TypeAlias = Literal[
    "constant", "layer", "binding", "shared", "input", "parameter", "metric", "job", "example"
]
"""What a name is of. An `input` is of a model and has the name of a tensor of the examples, an `example`."""

TYPES: Mapping[Kind, tuple[types.CompletionItemKind, str]] = {
    "constant": (types.CompletionItemKind.Constant, "variable"),
    "layer": (types.CompletionItemKind.Class, "class"),
    "binding": (types.CompletionItemKind.Variable, "variable"),
    "shared": (types.CompletionItemKind.Variable, "variable"),
    "input": (types.CompletionItemKind.Variable, "variable"),
    "parameter": (types.CompletionItemKind.TypeParameter, "parameter"),
    "metric": (types.CompletionItemKind.Property, "property"),
    "job": (types.CompletionItemKind.Module, "namespace"),
    "example": (types.CompletionItemKind.Variable, "variable"),
}
"""What the protocol calls each kind of names, as something to complete and as a semantic token."""

_ATTRIBUTES = frozenset(schema.BLOCKS["model"].names)


@frozen
class Symbol:
    """What a name means."""

    kind: Kind
    name: str
    # Where the block starts in which alone the name is known: its file and offset; else None.
    block: tuple[str, int] | None = None


@frozen
class Use:
    """A place at which a name is written."""

    symbol: Symbol
    span: Span
    is_definition: bool = False
    item: syntax.Item | None = None


@frozen
class Names:
    """All uses of the names of a spec."""

    uses: tuple[Use, ...]
    blocks: tuple[syntax.Block, ...]

    def at(self, source: Source, offset: int) -> Use | None:
        """Return the use at an offset; the end of a name counts as in it."""
        here = (each for each in self.uses if each.span.source.name == source.name)
        return next((each for each in here if each.span.start <= offset <= each.span.end), None)

    def of(self, symbol: Symbol) -> tuple[Use, ...]:
        """Return all uses of a symbol; those of an input are those of the tensor of the examples too."""
        return tuple(each for each in self.uses if _same(each.symbol, symbol))

    def definitions(self, symbol: Symbol) -> tuple[Use, ...]:
        """Return where a symbol is defined; a model's input before the data that has it."""
        found = [each for each in self.of(symbol) if each.is_definition]
        inputs = [each for each in found if each.symbol.kind == "input"]
        return tuple(inputs or found)

    def known_in(self, source: Source, offset: int) -> dict[str, Use]:
        """Return the definitions of the names that are known at an offset, by their names.

        Those are the names of all blocks, and those of the last block before the offset that has its own.
        """
        here = (each for each in self.blocks if each.span.source.name == source.name)
        before = (each for each in here if each.span.start <= offset)
        block = max(before, key=lambda each: each.span.start, default=None)
        blocks = {None, None if block is None else _key(block)}
        found = [use for use in self.uses if use.is_definition and use.symbol.block in blocks]
        found.sort(key=lambda use: use.symbol.kind != "example")  # an input of the model comes after them
        return {use.symbol.name: use for use in found}


@frozen
class Place:
    """A place in an open document, and what is known of the spec that has the document."""

    document: Document
    offset: int  # the place in it, in characters
    documents: Documents
    # The syntax trees of the spec; they may be of an earlier version of the text.
    trees: Sequence[syntax.File]
    names: Names

    @property
    def use(self) -> Use | None:
        """The use of a name at the place, or None if no name is there."""
        return self.names.at(self.document.source, self.offset)


def _same(one: Symbol, other: Symbol) -> bool:
    if {one.kind, other.kind} <= {"input", "example"}:
        return one.name == other.name
    return one == other


def _key(block: syntax.Block) -> tuple[str, int]:
    return block.span.source.name, block.span.start


def names_of(trees: Sequence[syntax.File]) -> Names:
    """Find all names in the files of a spec."""
    finding = _Finding()
    blocks = [block for tree in trees for block in syntax.blocks_in(tree.items)]
    for block in blocks:
        finding.declare(block)
    for block in blocks:
        finding.read(block)
    return Names(tuple(finding.uses), tuple(each for each in blocks if each.kind in {"model", "layer"}))


@define
class _Finding:
    """Walks over the blocks of a spec, first for what they define, then for what they use."""

    uses: list[Use] = field(factory=list)
    _globals: dict[str, Symbol] = field(factory=dict)
    _layers: dict[str, Symbol] = field(factory=dict)
    _jobs: dict[str, Symbol] = field(factory=dict)
    _locals: dict[tuple[str, int], dict[str, Symbol]] = field(factory=dict)
    _parameters: dict[str, dict[str, Symbol]] = field(factory=dict)
    _scope: dict[str, Symbol] = field(factory=dict)

    # --- definitions

    def declare(self, block: syntax.Block) -> None:
        """Add what a block defines."""
        if block.kind == "let":
            for item in syntax.attributes_in(block.items):
                self._globals[item.name] = self._define("constant", item.name, item.name_span, item)
        elif block.kind in {"model", "layer"}:
            label = block.label if block.kind == "layer" else None
            if label is not None:
                self._layers[label] = self._define("layer", label, _inside_quotes(block.label_span), block)
            self._bindings(block)
            if label is not None:
                scope = self._locals[_key(block)]
                self._parameters[label] = {
                    name: symbol for name, symbol in scope.items() if symbol.kind == "parameter"
                }
        elif block.kind == "devices":
            for job in syntax.blocks_in(block.items):
                if job.label is not None:
                    self._jobs[job.label] = self._define(
                        "job", job.label, _inside_quotes(job.label_span), job
                    )

    def _bindings(self, block: syntax.Block) -> None:
        scope = self._locals.setdefault(_key(block), {})
        for item in block.items:
            if isinstance(item, syntax.Block) and item.kind == "metrics":
                for metric in syntax.attributes_in(item.items):
                    self._define("metric", metric.name, metric.name_span, metric, _key(block))
            if not isinstance(item, syntax.Attribute) or _is_attribute(item, block):
                continue
            for name, span in item.names:
                kind = _kind(item.value, block)
                key = None if kind == "input" else _key(block)
                scope[name] = self._define(kind, name, span, item, key)

    def _define(
        self, kind: Kind, name: str, span: Span, item: syntax.Item, block: tuple[str, int] | None = None
    ) -> Symbol:
        symbol = Symbol(kind, name, block)
        self.uses.append(Use(symbol, span, is_definition=True, item=item))
        return symbol

    # --- uses

    def read(self, block: syntax.Block) -> None:
        """Add what a block uses."""
        self._scope = self._locals.get(_key(block), {})
        for item in block.items:
            self._item(item, block.kind)

    def _item(self, item: syntax.Item, kind: str) -> None:
        if isinstance(item, syntax.Block):
            for each in item.items:
                self._item(each, item.kind)
        elif kind in {"model", "layer", "metrics", "output"}:
            self._tensors(item.value)
        elif kind == "data" and isinstance(item, syntax.Attribute) and item.name in SPLITS:
            self._split(item)
        elif kind in {"place", "expect"}:
            self._devices(item.value)
        else:
            self._values(item.value)

    def _tensors(self, value: syntax.Node) -> None:
        """Add the names in an expression of tensors, or of steps of a flow."""
        match value:
            case syntax.Path():
                self._path(value, tensor=True)
            case syntax.Call():
                self._callee(value)
                name = value.callee.name
                of_tensors = name.startswith(PREFIX) or name in {"repeat", "layer"}
                for argument in value.arguments:
                    self._tensors(argument.value) if of_tensors else self._values(argument.value)
                for argument in value.given:
                    self._tensors(argument.value)
            case _:
                for part in syntax.parts_of(value):
                    self._tensors(part)

    def _values(self, value: syntax.Node) -> None:
        """Add the names in an expression of plain values."""
        if isinstance(value, syntax.Path):
            self._path(value, tensor=False)
            return
        parts = syntax.parts_of(value)
        for part in parts[1:] if isinstance(value, syntax.Call) else parts:  # a callee is no value
            self._values(part)

    def _path(self, path: syntax.Path, *, tensor: bool) -> None:
        head = path.segments[0]
        symbol = self._scope.get(head.name)
        if symbol is None or not (tensor or symbol.kind == "parameter"):
            symbol = self._globals.get(head.name)
        if symbol is not None and len(path.segments) == 1:
            self.uses.append(Use(symbol, head.name_span))
        for segment in path.segments:
            for index in syntax.parts_of(segment):
                self._tensors(index) if tensor else self._values(index)

    def _callee(self, call: syntax.Call) -> None:
        head = call.callee.segments[0]
        symbol = self._layers.get(head.name) or self._scope.get(head.name)
        if symbol is not None and len(call.callee.segments) == 1:
            self.uses.append(Use(symbol, head.name_span))
            if symbol.kind == "layer":
                self._named_arguments(call, symbol)

    def _named_arguments(self, call: syntax.Call, layer: Symbol) -> None:
        """Add the names of arguments that are parameters of a layer block."""
        parameters = self._parameters.get(layer.name, {})
        for argument in call.arguments:
            if argument.name in parameters and argument.name_span is not None:
                self.uses.append(Use(parameters[argument.name], argument.name_span))

    def _devices(self, value: syntax.Node) -> None:
        """Add the jobs and constants in a rule or condition."""
        match value:
            case syntax.Path():
                head = value.segments[0]
                if head.name not in self._jobs:
                    self._path(value, tensor=False)
                    return
                self.uses.append(Use(self._jobs[head.name], head.name_span))
            case syntax.Call():
                for argument in value.arguments:
                    self._devices(argument.value)
                return
        for part in syntax.parts_of(value):
            self._devices(part)

    def _split(self, item: syntax.Attribute) -> None:
        """Add the tensors of the examples that a split names."""
        source, steps = syntax.source_and_steps(item.value)
        if isinstance(source, syntax.Call):
            function = schema.function("source", source.callee.name)
            for argument in source.arguments:
                if argument.name and argument.name_span and _names_a_tensor(argument.name, function):
                    self._define("example", argument.name, argument.name_span, item)
                self._values(argument.value)
        for step in steps:
            if isinstance(step, syntax.Call):
                self._transform(step, item)

    def _transform(self, step: syntax.Call, item: syntax.Attribute) -> None:
        function = schema.function("transform", step.callee.name)
        positional = () if function is None else function.positional
        for at, argument in enumerate(step.arguments):
            known = None if function is None or argument.name is None else function.argument(argument.name)
            if argument.name is None and at < len(positional):
                known = positional[at]
            value = argument.value
            renames = function is not None and function.rest is not None and known is None
            if renames and argument.name is not None and argument.name_span is not None:
                self._define("example", argument.name, argument.name_span, item)
            is_tensor = renames or (known is not None and known.type.kind == "tensor")
            if is_tensor and isinstance(value, syntax.Path) and value.bare is not None:
                self.uses.append(Use(Symbol("example", value.bare), value.span))
            elif not is_tensor:
                self._values(value)


def _names_a_tensor(name: str, source: schema.Function | None) -> bool:
    """Whether a keyword of a source is the name of a tensor of the examples."""
    return source is not None and source.rest is not None and source.argument(name) is None


def _is_attribute(item: syntax.Attribute, block: syntax.Block) -> bool:
    return item.name in (_ATTRIBUTES if block.kind == "model" else ("output",))


def _kind(value: syntax.Expr, block: syntax.Block) -> Kind:
    if isinstance(value, syntax.Call):
        name = value.callee.name
        if name == "input":
            return "input" if block.kind == "model" else "binding"
        if name == "parameter":
            return "parameter"
        if name == "layer":
            return "shared"
    return "binding"


def _inside_quotes(span: Span | None) -> Span:
    """Return the span of a label without its quotes."""
    assert span is not None, "a block with a label"
    text = span.text
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return type(span)(span.source, span.start + 1, span.end - 1) if quoted else span
