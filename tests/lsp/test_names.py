"""Definition, references, highlight and rename, over all files of a spec."""

from pathlib import Path

import pytest
from lsprotocol import types

import grammar
from compiler.checks import diagnose
from dsl.diagnostics import Edit, edited
from dsl.source import Source, Span
from tests.folders import EXAMPLES
from tests.lsp.texts import SMALL, Opened, including, small
from tfdeploy.lsp.diagnostics import examine
from tfdeploy.lsp.documents import Documents
from tfdeploy.lsp.features import navigation
from tfdeploy.lsp.names import Place
from tfdeploy.lsp.settings import Settings

CLUSTER = """\
tfdeploy = 1
model "m" {
  x = input(float32, [4])
  output = x -> Dense(2)
}
devices {
  job "worker" { tasks = 2 }
}
place { clones -> worker[*].cpu[0] }
"""


def renamed(opened: Opened, name: str) -> str:
    """Return the text of a document after a rename that changes no other."""
    edit = navigation.rename(opened.place, name)
    assert set(edit.changes) == {opened.document.uri}
    return after(opened.document.text, list(edit.changes[opened.document.uri]), opened)


def after(text: str, edits: list[types.TextEdit], opened: Opened) -> str:
    """Return a text after some edits of the protocol."""
    positions, source = opened.document.positions, Source("text", text)
    spans = [
        Span(source, positions.offset(each.range.start), positions.offset(each.range.end)) for each in edits
    ]
    return edited(text, [Edit(span, each.new_text) for span, each in zip(spans, edits, strict=True)])


@pytest.mark.parametrize(
    ("old", "new", "name", "count"),
    [
        ("  width = 8", "  wid|th = 8", "width", 2),
        ("twice(units = width)", "twice(units = width|)", "width", 2),
        ("-> twice(", "-> |twice(", "twice", 2),
        ("twice(units = width)", "twice(uni|ts = width)", "units", 4),
        ("hidden -> Dense", "hid|den -> Dense", "hidden", 2),
        ("image -> twice", "im|age -> twice", "image", 4),
        ("scale(image,", "scale(im|age,", "image", 4),
        ("digit = feature", "dig|it = feature", "digit", 4),
    ],
)
def test_all_uses_of_a_name(old: str, new: str, name: str, count: int) -> None:
    """Each use leads to all, and renaming gives a spec that means the same and has the old name nowhere."""
    opened = small(old, new)
    found = navigation.references(opened.place, with_definition=True)
    assert len(found) == count
    assert len(navigation.highlights(opened.place)) == count
    text = renamed(opened, "other")
    assert text == SMALL.replace(name, "other")
    assert diagnose(grammar.read("spec.tfdeploy", text=text)) == []


def test_names_are_found_in_a_call_of_what_is_no_transform() -> None:
    """An editor has such texts while somebody writes."""
    opened = small("scale(image,", "scael(factor = wid|th,")
    assert len(navigation.references(opened.place, with_definition=True)) == len(("let", "units", "factor"))


def test_a_definition_is_highlighted_as_written() -> None:
    """The other uses are read, and references can leave it out; other texts and words have no highlights."""
    opened = small("  width = 8", "  wid|th = 8")
    found = navigation.highlights(opened.place)
    assert [each.kind for each in found] == [
        types.DocumentHighlightKind.Write,
        types.DocumentHighlightKind.Read,
    ]
    others = navigation.references(opened.place, with_definition=False)
    assert [each.range.start.line for each in others] == [SMALL[: SMALL.index("units = width")].count("\n")]
    opened = small("mode = sync", "mo|de = sync")
    assert navigation.highlights(opened.place) == []
    assert navigation.renamable(opened.place) is None


def test_definitions() -> None:
    """The definition of a tensor of the data is the input of the model that takes it."""
    for old, new, line in (
        ("scale(image,", "scale(im|age,", "image = input"),
        ("twice(units = width)", "twice(units = wid|th)", "width = 8"),
        ("twice(units = width)", "twice(un|its = width)", "units = parameter"),
        ("-> twice(", "-> tw|ice(", 'layer "twice"'),
        ("  output = x ->", "  output = x| ->", "x = input()"),
    ):
        opened = small(old, new)
        found = navigation.definitions(opened.place)
        assert [each.range.start.line for each in found] == [SMALL[: SMALL.index(line)].count("\n")], new


def test_a_job_is_renamed_with_its_rules() -> None:
    """Its name is in its quotes and in rules. With that of a kind, `gpu[0]` would mean something else."""
    opened = Opened(CLUSTER.replace("clones -> worker", "clones -> wor|ker"))
    assert renamed(opened, "node") == CLUSTER.replace("worker", "node")
    with pytest.raises(navigation.CannotRenameError, match="`gpu` is a kind of device"):
        renamed(opened, "gpu")


@pytest.mark.parametrize(
    ("old", "new", "name", "reason"),
    [
        ("hidden -> Dense", "hid|den -> Dense", "logits", "defined already"),
        ("hidden -> Dense", "hid|den -> Dense", "width", "defined already"),
        ("hidden -> Dense", "hid|den -> Dense", "loss", "attribute of a model"),
        ("hidden -> Dense", "hid|den -> Dense", "2x", "no name"),
        ("hidden -> Dense", "hid|den -> Dense", "true", "constant of the language"),
        ("-> twice(", "-> tw|ice(", "Dense", "there is a layer"),
        ("-> twice(", "-> tw|ice(", "repeat", "there is a layer"),
        ("  width = 8", "  wid|th = 8", "units", "defined already, in line 8 of /nowhere/spec.tfdeploy"),
        ("  width = 8", "  wid|th = 8", "hidden", "defined already"),
        ("image = input", "im|age = input", "digit", "defined already"),
        ("image = input", "im|age = input", "loss", "attribute of a model"),
        ("mode = sync", "mo|de = sync", "other", "no name of this spec"),
    ],
)
def test_what_cannot_be_renamed(old: str, new: str, name: str, reason: str) -> None:
    """A name that would mean something else is refused with the reason."""
    with pytest.raises(navigation.CannotRenameError, match=reason):
        renamed(small(old, new), name)


def test_names_that_do_not_meet_may_be_the_same() -> None:
    """A layer may be called as a constant, and a name in a layer as one in the model."""
    assert 'layer "width"' in renamed(small("-> twice(", "-> tw|ice("), "width")
    assert "  hidden = input()" in renamed(small("  x = input()", "  |x = input()"), "hidden")
    assert "accuracy" in renamed(small("hidden -> Dense", "hid|den -> Dense"), "accuracy")


def test_a_tensor_that_the_source_names_is_not_renamed() -> None:
    """`mnist` calls its images `image`, whatever the spec says."""
    text = SMALL.replace(
        "synthetic(100, image = feature(float32, [4]), digit = feature(int32, [], 10))", 'mnist("a", "b")'
    )
    with pytest.raises(navigation.CannotRenameError, match="mnist"):
        renamed(Opened(text.replace("image -> twice", "im|age -> twice")), "other")


def test_names_over_included_files(tmp_path: Path) -> None:
    """A constant in an included file is found and renamed there, as the editor has it."""
    main = including("part.tfdeploy")
    (tmp_path / "part.tfdeploy").write_text("let { old = 8 }\n")
    documents = Documents()
    document = documents.open((tmp_path / "main.tfdeploy").as_uri(), 1, main)
    part = documents.open((tmp_path / "part.tfdeploy").as_uri(), 1, "# new\nlet { width = 8 }\n")
    read = examine(document, documents.texts, Settings())
    offset = main.index("units = width") + 9
    at = Place(document, offset, documents, read.reading.trees, read.names)
    found = navigation.definitions(at)
    assert [(each.uri, each.range.start.line, each.range.start.character) for each in found] == [
        (part.uri, 1, 6)
    ]
    edit = navigation.rename(at, "broad")
    assert {uri: len(each) for uri, each in edit.changes.items()} == {document.uri: 1, part.uri: 1}


@pytest.mark.family(every=4)
@pytest.mark.parametrize("spec", sorted(EXAMPLES.rglob("*.tfdeploy")), ids=lambda spec: spec.stem)
def test_renaming_in_the_examples_keeps_their_meaning(spec: Path) -> None:
    """Every constant, layer, parameter and binding of an example can be renamed, and nothing gets lost."""
    text = spec.read_text()
    opened = Opened(text, spec)
    before = grammar.read(spec, text=text, allow_python=True)
    symbols = {use.symbol: use for use in opened.names.uses if use.is_definition}
    for symbol, use in symbols.items():
        if symbol.kind in {"metric", "example", "input"} or symbol.name == "_":
            continue
        opened.offset = use.span.start
        changed = renamed(opened, "something_else")
        read = grammar.read(spec, text=changed, allow_python=True)
        assert [each.code for each in read.diagnostics] == [each.code for each in before.diagnostics], symbol
