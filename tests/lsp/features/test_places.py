"""What is answered at every place of a spec that has a bit of everything, as golden texts.

The other tests hold what is told at chosen places. Here nothing that is told can change unseen: what
fits there, the call around it, what the word means, and what the whole text is to an editor.
"""

from collections.abc import Callable, Iterator, Sequence

import pytest
from lsprotocol import types

import grammar
from grammar.cursor import cursor_at, parts_of_line
from tests.lsp.texts import Opened
from tfdeploy.lsp import slots
from tfdeploy.lsp.features import colors, completion, hover, navigation
from tfdeploy.lsp.settings import TOKEN_TYPES
from tfdeploy.lsp.slots import Slot, slot_at

RICH = """\
# A comment
# of two lines
tfdeploy = 1

let {
  width = 8
  rates = [0.1, -width * 2]
}

layer "wide" {
  units = parameter(int, 4)
  act = parameter(activation)
  x = input()
  output = x -> repeat(2, Dense(units, act)) -> Dropout(0.5)
}

model "rich" {
  image = input(float32, [4, 4])
  digit = input(int32, [])
  table = weight([width, 4], "glorot_uniform")
  shared = layer(Dense(width))
  mean = ops.mean(image, axis = 1)[:, 0..2]
  both = (mean -> shared) + table * 2
  hidden = both -> wide(units = 3) -> python("mine:layer")
  logits = hidden -> Dense(10, activation = relu)
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  output = {
    scores = logits -> Softmax()
  }
  metrics {
    accuracy = [digit, logits] -> SparseCategoricalAccuracy()
  }
}

data {
  train = csv(["a.csv", "b.csv"], image = "p*", digit = "d", header = true)
    -> scale(image, 1 / 255)
    -> shuffle(100) -> rename(digit = label)
  test = synthetic(10, image = feature(float32, [4, 4]))
}

devices {
  job "ps" { tasks = 2 }
  job "worker" {
    hosts = ["a:1", "b:1"]
    gpu = width
    cpu = 1
  }
}

clones {
  batch = 8
}

place {
  clones -> groups(worker[*].gpu[0..1], size = 2)
  variables("wide/*") -> sharded(ps[*], axis = 0)
  ops -> group[0]
  variables -> balanced(ps[*])
}

update {
  mode = async
  aggregate = hierarchical(groups = 2)
  pack = 1MiB
  freeze = ["wide/*"]
  optimizer {
    "wide/*" -> Adam(CosineDecay(1e-3, 100))
    "*" -> SGD(width)
  }
}

train {
  steps = 10
  checkpoint_every = 5min
  weights { "wide/*" -> "file.keras" }
}

expect {
  memory(worker[0].gpu[0]) < 1GiB
  traffic(ps[*], worker[*]) / 2 <= 3MB
}
"""
MOST = 4
"""How many of the things that are offered are listed; of others the number is."""


@pytest.fixture(scope="module")
def opened() -> Opened:
    """Return the spec as it is open in an editor."""
    return Opened(RICH)


def lines_with_places() -> Iterator[tuple[str, list[int]]]:
    """Yield each line of the spec with the offsets of the ends of its words and signs, and of its start."""
    start = 0
    for line in RICH.splitlines():
        parts = [each for each in parts_of_line(line) if each.kind != "COMMENT"]
        yield line, [start + each.end for each in parts] if parts else [start + len(line)]
        start += len(line) + 1


def marked(line: str, offset: int) -> str:
    """Return the words around an offset of the spec, with the offset marked."""
    start = RICH.rfind("\n", 0, offset) + 1
    column = offset - start
    return f"{line[max(0, column - 16) : column]}|{line[column : column + 6]}".strip()


def test_what_fits_at_every_place(opened: Opened, golden: Callable[[str, str], None]) -> None:
    """After each word and sign: what the language takes there, and the call around."""
    layers = slots.layer_functions(opened.trees)
    told = []
    for line, offsets in lines_with_places():
        for offset in offsets:
            told.append(f"{marked(line, offset):26} {_of_slot(slot_at(cursor_at(RICH, offset), layers))}")
            found = hover.signature_help(opened.at(offset))
            if found is not None:
                (shown,) = found.signatures
                told.append(f"{'':26}   in {shown.label}, argument {found.active_parameter}")
    golden("lsp/slots.txt", "\n".join(told) + "\n")


def _of_slot(slot: Slot) -> str:
    """Return a slot as text, without what is as usual."""
    told = [
        slot.want,
        *([f"type {slot.type.described()}"] if slot.type is not None else []),
        *([f"block {slot.block}"] if slot.block else []),
        *([f"name {slot.name}"] if slot.name else []),
        *([f"function {slot.function.name}"] if slot.function is not None else []),
        *([f"given {' '.join(slot.given)}"] if slot.given else []),
        *([f"doc {slot.doc[:24]}"] if slot.doc else []),
        *([f"steps {slot.steps}"] if slot.steps != "layer" else []),
    ]
    return "; ".join(told)


def test_what_is_offered_at_every_place(opened: Opened, golden: Callable[[str, str], None]) -> None:
    """The first things in the order in which an editor shows them, and how many there are."""
    told, before = [], ""
    for line, offsets in lines_with_places():
        for offset in offsets:
            items = completion.complete(opened.at(offset), snippets=True, variables=lambda: ("w/k",)).items
            lines = [_of_item(each) for each in items[:MOST]]
            if len(items) > MOST:
                lines.append(f"and {len(items) - MOST} more, the last is {items[-1].label}")
            text = "\n".join(f"    {each}" for each in lines)
            if text and text != before:
                told += [marked(line, offset), text]
            before = text
    golden("lsp/offers.txt", "\n".join(told) + "\n")


def _of_item(item: types.CompletionItem) -> str:
    assert item.kind is not None
    edit = item.text_edit
    inserted = repr(edit.new_text) if edit.new_text != item.label else "itself"
    long = edit.range.end.character - edit.range.start.character
    data = "" if item.data is None else f", {': '.join(item.data)[:40]}"
    is_snippet = item.insert_text_format == types.InsertTextFormat.Snippet
    said = (item.detail or "")[:50]
    return (
        f"{item.label} ({types.CompletionItemKind(item.kind).name}): {inserted} for {long}"
        f"{', a snippet' if is_snippet else ''}; {said}{data}"
    )


def test_what_every_word_means(opened: Opened, golden: Callable[[str, str], None]) -> None:
    """The first lines of what is shown for it, where it is defined, and how many uses it has."""
    told = []
    for line, offsets in lines_with_places():
        for offset in offsets:
            found = hover.hover(opened.at(offset))
            uses = navigation.references(opened.at(offset), with_definition=True)
            defined = navigation.definitions(opened.at(offset))
            if found is not None:
                assert isinstance(found.contents, types.MarkupContent)
                assert found.range is not None
                text = " ".join(found.contents.value.split()).removeprefix("```tfdeploy ")
                told.append(f"{marked(line, offset):26} {_columns(found.range)} {text[:100]}")
            if uses:
                places = ", ".join(f"line {each.range.start.line + 1}" for each in defined)
                told.append(f"{'':26}   {len(uses)} uses, defined in {places}")
    golden("lsp/words.txt", "\n".join(told) + "\n")


def _columns(range_: types.Range) -> str:
    return f"{range_.start.character}-{range_.end.character}"


def test_what_the_text_is_to_an_editor(opened: Opened, golden: Callable[[str, str], None]) -> None:
    """Its words with their colours, its symbols, what folds, what is selected step by step, and hints."""
    document = opened.document
    told = ["colours"]
    data = colors.semantic_tokens(document, opened.names).data
    lines, line, column = RICH.split("\n"), 0, 0
    for at in range(0, len(data), 5):
        down, right, long, kind, modifiers = data[at : at + 5]
        line, column = line + down, right + (column if down == 0 else 0)
        told.append(
            f"  {line + 1}:{column} {lines[line][column : column + long]} {TOKEN_TYPES[kind]} {modifiers}"
        )
    told += ["symbols"]
    told += [
        f"  {each.name}, {each.kind.name}, in {each.container_name}, {each.location.range.start.line + 1}"
        for each in navigation.named(document)
        if isinstance(each.location, types.Location)
    ]
    told += ["tree", *_of_symbols(navigation.symbols(document), "  ")]
    told += ["folds"]
    told += [
        f"  {each.start_line + 1} to {each.end_line + 1} {each.kind}" for each in navigation.folds(document)
    ]
    told += ["selections"]
    for start, made in zip(range(0, len(RICH), 37), _selections(opened), strict=True):
        told.append(f"  {start}: {' < '.join(made)}")
    told += ["hints"]
    spec = grammar.read("rich.tfdeploy", text=RICH, allow_python=True).spec
    whole = document.positions.range(0, len(RICH))
    told += [
        f"  {each.position.line + 1}:{each.position.character} {each.label} {each.kind} "
        f"{each.padding_left} {each.padding_right}"
        for each in colors.hints(document, opened.trees, spec, {}, whole)
    ]
    golden("lsp/text.txt", "\n".join(told) + "\n")


def _of_symbols(symbols: Sequence[types.DocumentSymbol], indent: str) -> Iterator[str]:
    """Yield what an outline of the text shows, with the lines of each part and the place of its name."""
    for each in symbols:
        at = each.selection_range.start
        lines = f"{each.range.start.line + 1}-{each.range.end.line + 1}"
        name = f"{at.line + 1}:{at.character}-{each.selection_range.end.character}"
        yield f"{indent}{each.name}, {each.kind.name}, {each.detail}, lines {lines}, name at {name}"
        yield from _of_symbols(each.children or (), f"{indent}  ")


def _selections(opened: Opened) -> Iterator[list[str]]:
    """Yield the lengths of the ranges around every thirty-seventh place, the shortest first."""
    positions = opened.document.positions
    for found in navigation.selections(opened.document, range(0, len(RICH), 37)):
        made: types.SelectionRange | None = found
        lengths = []
        while made is not None:
            start, end = positions.offset(made.range.start), positions.offset(made.range.end)
            lengths.append(f"{start}-{end}")
            made = made.parent
        yield lengths
