"""Completion: what can be written at a place, with snippets for the parts that have to be filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from attrs import define, field
from lsprotocol import types

from dsl import schema, syntax
from dsl.schema import Function, Type, signatures
from grammar.cursor import Cursor, cursor_at
from grammar.lower.devices import KINDS
from grammar.lower.network import flows
from grammar.lower.network.operations import PREFIX
from tfdeploy.lsp import describe, slots
from tfdeploy.lsp.documents import Document
from tfdeploy.lsp.names import TYPES, Names, Place, Use
from tfdeploy.lsp.slots import Slot, function_of, slot_at

_Kind = types.CompletionItemKind
_TENSORS = ("binding", "input", "parameter")
SNIPPETS = {
    "tfdeploy": "tfdeploy = ${1:1}",
    "include": 'include = ["${1:part.tfdeploy}"]',
    "let": "let {\n  ${1:name} = ${2:1}\n}",
    "model": 'model "${1:name}" {\n  ${2:x} = input(${3:float32}, [${4:4}])\n  $0\n}',
    "layer": 'layer "${1:name}" {\n  ${2:x} = input()\n\n  output = ${2:x} -> $0\n}',
    "data": "data {\n  train = $0\n}",
    "devices": "devices {\n  cpu = ${1:2}$0\n}",
    "clones": "clones {\n  batch = ${1:32}$0\n}",
    "place": "place {\n  clones -> ${1:cpu[*]}\n  variables -> ${2:cpu[0]}$0\n}",
    "update": "update {\n  optimizer = ${1:Adam(${2:1e-3})}$0\n}",
    "train": "train {\n  ${1:steps} = ${2:1000}$0\n}",
    "expect": "expect {\n  $0\n}",
    "metrics": "metrics {\n  ${1:accuracy} = [${2:target}, ${3:prediction}] -> $0\n}",
    "output": "output = {\n  ${1:name} = $0\n}",
    "job": 'job "${1:worker}" {\n  tasks = ${2:2}$0\n}',
    "optimizer": 'optimizer {\n  "${1:*}" -> ${2:Adam(1e-3)}$0\n}',
    "weights": 'weights {\n  "${1:*}" -> "${2:file}"$0\n}',
}
"""What is inserted for a block or an attribute at the top, in the notation of snippets of the protocol."""
_OF_TARGETS = {
    "set": "(${1:cpu[*]})",
    "pieces": "(${1:cpu[*]})",
    "groups": "(${1:cpu[*]}, size = ${2:2})",
    "member": "[${1:0}]",
}
"""What is inserted after the name of a target, by its shape."""


def complete(
    at: Place, *, snippets: bool, variables: Callable[[], Sequence[str]] = tuple
) -> types.CompletionList:
    """Return what can be written at a place."""
    cursor = cursor_at(at.document.text, at.offset)
    if cursor.within is not None:
        takes_globs = cursor.within == "string" and _takes_globs(cursor)
        items = _globs(at.document, at.offset, variables()) if takes_globs else []
        return types.CompletionList(is_incomplete=False, items=items)
    layers = slots.layer_functions(at.trees)
    known = at.names.known_in(at.document.source, at.offset)
    offers = _Offers(known, layers, at.trees, at.names, cursor.word, snippets=snippets)
    offers.fill(slot_at(cursor, layers))
    range_ = at.document.positions.range(at.offset - len(cursor.word), at.offset)
    return types.CompletionList(is_incomplete=False, items=offers.items(range_))


def _takes_globs(cursor: Cursor) -> bool:
    """Whether a string holds a glob of the names of variables."""
    call = cursor.call
    if call is not None:
        return call.name in {"variables", "slots"} and cursor.blocks[:1] == ("place",)
    if cursor.around and cursor.around[0].shape == "list":
        return [part.text for part in cursor.around[0].item] == ["freeze", "="]
    return cursor.blocks[:1] in {("optimizer",), ("weights",)} and len(cursor.item) == 1


def _globs(document: Document, offset: int, names: Sequence[str]) -> list[types.CompletionItem]:
    """Return names of variables, and a glob for everything in each scope; they replace the whole string."""
    start = document.text.rindex('"', 0, offset) + 1
    found: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        for end in range(1, len(parts)):
            found.setdefault("/".join(parts[:end]) + "/*", "variables of the last run in this scope")
    found |= dict.fromkeys(names, "a variable of the last run")
    range_ = document.positions.range(start, offset)
    return [
        types.CompletionItem(text, kind=_Kind.Value, detail=detail, text_edit=types.TextEdit(range_, text))
        for text, detail in found.items()
    ]


def resolve(item: types.CompletionItem, trees: Sequence[syntax.File]) -> types.CompletionItem:
    """Add the description of an item, which the editor asks for when the item is looked at."""
    data = item.data
    if not isinstance(data, (list, tuple)) or len(data) != len(("category", "name")):
        return item
    category, name = map(str, data)
    text = described(category, name, slots.layer_functions(trees))
    if text is not None:
        item.documentation = types.MarkupContent(types.MarkupKind.Markdown, text)
    return item


def described(category: str, name: str, layers: Mapping[str, Function]) -> str | None:
    """Return the description of something by its category and name, or None if there is none."""
    kind, _, of = category.partition(":")
    if kind == "block":
        return describe.block(schema.BLOCKS[name]) if name in schema.BLOCKS else None
    if kind == "attribute":
        known = schema.BLOCKS.get(of)
        rows = schema.ROOT_ATTRIBUTES if known is None else known.attributes
        row = next((each for each in rows if each.name == name), None)
        return None if row is None else describe.attribute(row, known)
    if kind == "word":
        return of or None
    tables = {"keras": Slot("value", Type("keras", of=of)), "call": Slot("value", Type("call", of=of))}
    slot = tables.get(kind) or Slot("layer" if kind == "application" else kind)  # type: ignore[arg-type]  # a Want
    found = function_of(name, slot, layers)
    shown = "operation" if name.startswith(PREFIX) else of if kind == "keras" else kind
    return None if found is None else describe.function(found, shown)


@define
class _Offers:
    """Gathers what is offered, in order; what comes first is shown first."""

    _known: Mapping[str, Use]
    _layers: Mapping[str, Function]
    _trees: Sequence[syntax.File]
    _names: Names
    _word: str
    _snippets: bool = field(kw_only=True)
    _found: dict[str, types.CompletionItem] = field(factory=dict, init=False)

    def items(self, range_: types.Range) -> list[types.CompletionItem]:
        """Return the items; each replaces the word that was typed so far."""
        for number, item in enumerate(self._found.values()):
            item.sort_text = f"{number:05}"
            item.text_edit = types.TextEdit(range_, item.insert_text or item.label)
            item.insert_text = None
        return [*self._found.values()]

    def add(
        self,
        label: str,
        kind: types.CompletionItemKind,
        detail: str = "",
        snippet: str | None = None,
        category: str | None = None,
    ) -> None:
        """Offer something, unless it is offered already."""
        snippet = snippet if self._snippets else None
        formats = types.InsertTextFormat
        if label not in self._found:
            self._found[label] = types.CompletionItem(
                label,
                kind=kind,
                detail=detail or None,
                filter_text=label,
                insert_text=snippet,
                insert_text_format=formats.Snippet if snippet else formats.PlainText,
                data=None if category is None else [category, label.removesuffix(" =")],
            )

    def fill(self, slot: Slot) -> None:  # noqa: C901, PLR0912 one for each kind of place
        """Offer everything that fits a place."""
        if slot.function is not None:
            self._arguments(slot.function, slot.given)
        match slot.want:
            case "item":
                self._item(slot.block)
            case "value" if slot.type is not None:
                self._value(slot.type, slot.doc)
            case "constant":
                self._uses("constant")
            case "binding":
                self._uses(*_TENSORS)
                self._makers(slot.block)
                self._operations()
            case "tensor":
                self._uses(*_TENSORS, "constant")
                self._operations()
            case "layer":
                self._layer()
            case "loss" | "metric":
                self._keras(slot.want)
            case "source" | "transform":
                self._table(slot.want)
            case "selector":
                self._selectors()
            case "target":
                self._targets(only_devices=slot.name == "devices")
            case "index":
                self._indices(slot.name)
            case _:
                assert slot.want in {"nothing", "shared", "measure", "value"}, slot

    # --- items of blocks

    def _item(self, block: str) -> None:
        if not block:
            there = slots.blocks_of(self._trees)
            self._blocks(name for name in schema.ROOT if name not in there)
            for row in schema.ROOT_ATTRIBUTES:
                self.add(row.name, _Kind.Property, row.doc, SNIPPETS[row.name], "attribute:")
        elif block in schema.BLOCKS:
            known = schema.BLOCKS[block]
            there = slots.attributes_of(self._trees, block)
            for row in known.attributes:
                if row.name not in there:
                    snippet = f"{row.name} = {self._default(known, row)}"
                    self.add(row.name, _Kind.Property, row.doc, snippet, f"attribute:{block}")
            given_otherwise = {*there, *(("output",) if block == "model" else ())}
            self._blocks(name for name in known.inner if name not in given_otherwise)
        if block == "place":
            self._selectors(arrow=True)
        for each in schema.MEASURES if block == "expect" else ():
            self.add(each.name, _Kind.Function, each.doc, f"{each.name}($1) <= $0", "measure")

    def _blocks(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self.add(kind, _Kind.Module, schema.BLOCKS[kind].doc, SNIPPETS[kind], "block")

    def _default(self, known: schema.Block, row: schema.Attribute) -> str:
        """Return what is put in for the value of an attribute: its words to choose from, or its default."""
        if row.type.kind == "word":
            return f"${{1|{','.join(row.type.words)}|}}"
        default = known.default(row.name)
        if default is None or default == () or default is False:
            return "${1:true}" if row.type.kind == "bool" else "$0"
        return f"${{1:{_escaped(describe.written(default, row.type))}}}"

    def _arguments(self, function: Function, given: tuple[str, ...]) -> None:
        for row in function.arguments:
            if row.name not in given:
                detail = row.doc or row.type.described()
                self.add(f"{row.name} =", _Kind.Field, detail, f"{row.name} = $0", f"word:{detail}")

    # --- values

    def _value(self, kind: Type, doc: str) -> None:  # noqa: C901 one for each kind of type
        for word in kind.words:
            self.add(word, _Kind.EnumMember, category=f"word:{doc}")
        if kind.kind == "bool":
            for word in ("true", "false"):
                self.add(word, _Kind.Keyword)
        if kind.kind == "keras":
            self._keras(kind.of)
        if kind.kind == "call":
            self._table(kind.of)
        if kind.kind == "tensor":
            for name in slots.tensors_of_examples(self._names):
                self.add(name, _Kind.Variable, "a tensor of the examples")
        for option in kind.options:
            self._value(option, doc)
        if kind.kind not in {"word", "tensor"}:
            self._uses("parameter", "constant")
        if kind.optional:
            self.add("none", _Kind.Keyword)

    def _uses(self, *kinds: str) -> None:
        for wanted in kinds:
            for name, use in self._known.items():
                if use.symbol.kind == wanted and name != "_":
                    self.add(name, TYPES[use.symbol.kind][0], _line(use))

    def _keras(self, category: str) -> None:
        for name, call in _calls(Slot("value", Type("keras", of=category)), category):
            self.add(name, _Kind.Class, f"{category} of Keras", call, f"keras:{category}")
        self._table(category)

    def _table(self, table: str) -> None:
        for function in schema.FUNCTIONS.get(table, ()):
            bare = table == "aggregation" and not function.arguments
            snippet = None if bare else _call(function)
            self.add(function.name, _Kind.Function, function.doc, snippet, f"call:{table}")

    # --- models

    def _makers(self, block: str) -> None:
        for name in flows.MAKERS:
            found = function_of(name, Slot("binding"), self._layers)
            if found is not None and (name != "parameter" or block == "layer"):
                snippet = "input()" if (name, block) == ("input", "layer") else _call(found)
                self.add(name, _Kind.Function, found.doc, snippet, "binding")

    def _operations(self) -> None:
        if not self._word.startswith(PREFIX):
            self.add(PREFIX, _Kind.Module, "the functions of keras.ops")
            return
        for name in signatures.names("operation"):
            self.add(PREFIX + name, _Kind.Function, "operation of Keras", f"{PREFIX}{name}($0)", "tensor")

    def _layer(self) -> None:
        if self._word.startswith(flows.APPLICATIONS):
            for short in signatures.names("application"):
                name = flows.APPLICATIONS + short
                self.add(name, _Kind.Class, "application of Keras", f"{name}($0)", "application")
            return
        self._uses("shared")
        for name, function in self._layers.items():
            self.add(name, _Kind.Class, function.doc, _call(function), "layer")
        for name, call in _calls(Slot("layer"), "layer"):
            self.add(name, _Kind.Class, "layer of Keras", call, "layer")
        self.add("repeat", _Kind.Function, "a step several times", "repeat(${1:2}, $0)", "layer")
        self.add("python", _Kind.Function, "a layer of a Python function", 'python("$0")', "layer")
        self.add(flows.APPLICATIONS, _Kind.Module, "the models of keras.applications")

    # --- placement

    def _selectors(self, *, arrow: bool = False) -> None:
        for each in schema.SELECTORS:
            glob = '("${1:*}")' if each.pattern == "required" else ""
            snippet = f"{each.name}{glob}{' -> $0' if arrow else ''}"
            self.add(each.name, _Kind.Keyword, each.doc, snippet, "selector")

    def _targets(self, *, only_devices: bool) -> None:
        for devices in slots.devices_of(self._trees, self._names):
            task = "" if devices.job is None else f"{devices.job}[*]."
            for kind, count in devices.counts.items():
                if count == 0:
                    continue
                self.add(f"{task}{kind}[*]", _Kind.Value, f"every {kind} that is declared")
                self.add(f"{task}{kind}[0]", _Kind.Value, f"the first {kind}")
                if count is not None and count > 1:
                    self.add(f"{task}{kind}[0..{count - 1}]", _Kind.Value, f"{count} devices")
            if devices.job is not None:
                self.add(devices.job, _Kind.Module, "a job", f"{devices.job}[${{1:*}}]")
        for each in () if only_devices else schema.TARGETS:
            label = f"{each.name}(clones)" if each.shape == "clones" else each.name
            snippet = f"{each.name}{_OF_TARGETS[each.shape]}" if each.shape in _OF_TARGETS else None
            self.add(label, _Kind.Keyword, each.doc, snippet, "target")

    def _indices(self, name: str) -> None:
        for devices in slots.devices_of(self._trees, self._names):
            count = devices.tasks if devices.job == name else devices.counts.get(name)
            if devices.job != name and name not in devices.counts:
                continue
            self.add("*", _Kind.Value, "all of them")
            for number in range(min(count or 0, 16)):
                self.add(str(number), _Kind.Value)
            if count is not None and count > 1:
                self.add(f"0..{count - 1}", _Kind.Value, f"{count} of them")
        if name not in KINDS:
            self._uses("parameter", "constant")


def _line(use: Use) -> str:
    return "" if use.item is None else use.item.span.text.split("\n", 1)[0].strip()


def _call(function: Function) -> str:
    """Return a call as a snippet: the arguments that must be given, to be filled in."""
    needed = [each for each in function.arguments if each.required]
    parts = [
        f"${{{at}:{_escaped(each.name)}}}"
        if each.positional
        else f"{each.name} = ${{{at}:{_escaped(each.name)}}}"
        for at, each in enumerate(needed, 1)
    ]
    return f"{function.name}({', '.join(parts)}{'' if needed else '$0'})"


@cache
def _calls(slot: Slot, category: str) -> tuple[tuple[str, str], ...]:
    """Return the names of all objects of Keras of a category, each with a call of it as a snippet."""
    found = ((name, function_of(name, slot, {})) for name in signatures.names(category))
    return tuple((name, _call(function)) for name, function in found if function is not None)


def _escaped(text: str) -> str:
    """Return text as it stands in a snippet."""
    return text.replace("\\", "\\\\").replace("$", "\\$").replace("}", "\\}")
