"""Symbols, folding, selection, links, semantic tokens, hints and lenses of a text."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from attrs import evolve
from lsprotocol import types

import grammar
from compiler.mapping.records import MapSpec
from tests.folders import EXAMPLES
from tests.lsp.texts import SMALL, Opened
from tests.placement_maps import make_map
from tfdeploy.lsp import offers
from tfdeploy.lsp.documents.opened import Documents
from tfdeploy.lsp.features import colors, commands, hints, outline
from tfdeploy.lsp.features.workspace import Symbols
from tfdeploy.lsp.reading import placements

WHOLE = types.Range(types.Position(0, 0), types.Position(999, 0))


def test_symbols_of_a_text() -> None:
    """Blocks with what they define, one within the other; rules of placement by their text."""
    found = outline.symbols(Opened(SMALL).document)
    tree = {each.name: [child.name for child in each.children or ()] for each in found}
    assert tree["model small"] == ["image", "digit", "hidden", "logits", "loss", "metrics"]
    assert tree["place"] == ["clones -> cpu[*]", "variables -> cpu[0]"]
    model = next(each for each in found if each.name == "model small")
    assert model.range.start.line == SMALL[: SMALL.index("model ")].count("\n")


def test_symbols_of_a_workspace(tmp_path: Path) -> None:
    """Those of every spec below the folders; what the editor shows counts in place of its file."""
    for name, text in {
        "one.tfdeploy": "let {\n  width = 8\n}\n",
        "sub/two.tfdeploy": "let {\n  other_width = 8\n}\n",
        "sub/broken.tfdeploy": "let {\n  width_3 = \nmodel {",
        "sub/not_text.tfdeploy": "\0",
        "shown.tfdeploy": "let {\n  old_width = 8\n}\n",
        "notes.txt": "let {\n  width = 8\n}\n",
        ".hidden/three.tfdeploy": "let {\n  width = 8\n}\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "gone.tfdeploy").symlink_to("nowhere.tfdeploy")
    documents = Documents()
    shown = [documents.open((tmp_path / "shown.tfdeploy").as_uri(), 1, "let {\n  new_width = 8\n}\n")]
    symbols = Symbols()

    def found() -> list[tuple[str, str, str | None]]:
        matching = symbols.matching("WIDTH", shown, [str(tmp_path), str(tmp_path / "sub")])
        return [(each.location.uri.rpartition("/")[2], each.name, each.container_name) for each in matching]

    assert found() == [
        ("shown.tfdeploy", "new_width", "let"),
        ("one.tfdeploy", "width", "let"),
        ("broken.tfdeploy", "width_3", "let"),
        ("two.tfdeploy", "other_width", "let"),
    ]
    (tmp_path / "one.tfdeploy").write_text("let {\n  height = 8\n}\n")
    (tmp_path / "sub" / "two.tfdeploy").unlink()
    assert [name for _, name, _ in found()] == ["new_width", "width_3"]


def test_folds() -> None:
    """Blocks, items over several lines, and comments over several lines can be folded."""
    text = "# one\n# two\ndevices {\n  cpu = 4\n}\nlet {\n  a = [\n    1,\n  ]\n}\n"
    found = {(each.start_line, each.end_line) for each in outline.folds(Opened(text).document)}
    assert found == {(0, 1), (2, 3), (5, 8), (6, 7)}


def test_selections_grow() -> None:
    """From a number over its call, flow, item and block to the whole text."""
    opened = Opened(SMALL)
    at = SMALL.index("hidden -> Dense(10)") + len("hidden -> Dense(1")
    made: types.SelectionRange | None = outline.selections(opened.document, [at])[0]
    texts = []
    while made is not None:
        start, end = (opened.document.positions.offset(each) for each in (made.range.start, made.range.end))
        texts.append(SMALL[start:end])
        made = made.parent
    assert texts[:4] == ["10", "Dense(10)", "hidden -> Dense(10)", "logits = hidden -> Dense(10)"]
    assert texts[-2].startswith('model "small"')
    assert texts[-1] == SMALL


def test_links_lead_to_files_that_are_there() -> None:
    """The data files of an example are links; a file that is not there is none."""
    spec = EXAMPLES / "digits.tfdeploy"
    opened = Opened(spec.read_text().replace("digits/test.csv", "digits/nowhere.csv"), spec)
    found = outline.links(opened.document)
    assert [Path(str(each.target)).name for each in found] == ["train.csv"]
    start, end = (
        opened.document.positions.offset(each) for each in (found[0].range.start, found[0].range.end)
    )
    assert opened.document.text[start:end] == "data/digits/train.csv"


def decoded(opened: Opened) -> dict[tuple[int, int], tuple[str, str]]:
    """Return the text and type of each semantic token, by its line and column."""
    data = colors.semantic_tokens(opened.document, opened.names).data
    lines = opened.document.text.split("\n")
    line = column = 0
    found = {}
    for at in range(0, len(data), 5):
        column = data[at + 1] + (column if data[at] == 0 else 0)
        line += data[at]
        text = lines[line][column : column + data[at + 2]]
        found[line, column] = (text, offers.TOKEN_TYPES[data[at + 3]])
        assert data[at + 4] == 0 or found[line, column][1] not in {"keyword", "number", "operator"}, text
    return found


def test_semantic_tokens_of_the_small_spec() -> None:
    """A word is coloured by what it means: a constant, parameter, layer, tensor or word of the language."""
    found = list(decoded(Opened(SMALL)).values())
    for each in (
        ("model", "keyword"),
        ("mode", "property"),
        ("sync", "enumMember"),
        ("width", "variable"),
        ("units", "parameter"),
        ("twice", "class"),
        ("Dense", "function"),
        ("hidden", "variable"),
        ("0.5", "number"),
        ("->", "operator"),
    ):
        assert each in found, each


@pytest.mark.parametrize("spec", sorted(EXAMPLES.rglob("*.tfdeploy")), ids=lambda spec: spec.stem)
def test_semantic_tokens_of_the_examples(spec: Path) -> None:
    """Tokens do not overlap, are no white space, and every word outside of strings and comments has one."""
    opened = Opened(spec.read_text().replace("|", ""), spec)
    found = decoded(opened)
    end = (0, 0)
    for (line, column), (text, _) in sorted(found.items()):
        assert text.strip() == text != "", (line, column, text)
        assert (line, column) >= end
        end = (line, column + len(text))


def hints_of(text: str) -> list[str]:
    """Return each hint after the line up to its place."""
    opened = Opened(text)
    spec = grammar.read("spec.tfdeploy", text=text).spec
    assert spec is not None
    lines = text.split("\n")
    return [
        f"{lines[each.position.line][: each.position.character].lstrip()}|{each.label}"
        for each in hints.hints(opened.document, opened.trees, spec, {}, WHOLE)
    ]


def test_hints() -> None:
    """Names of positional arguments where there are several, shapes of tensors, the batch of all clones."""
    found = hints_of(SMALL.replace("Dense(10)", "Dense(10, relu)"))
    assert "logits = hidden -> Dense(|units:" in found
    assert "logits = hidden -> Dense(10, |activation:" in found
    assert "logits|: [10]" in found
    assert "hidden|: [8]" in hints_of(SMALL.replace("twice(units = width)", "Dense(8)"))
    assert "batch = 8|32 for all 4 clones" in found
    assert not [each for each in found if each.endswith("Dropout(|rate:")]


def test_what_a_rule_has_placed(tmp_path: Path) -> None:
    """The map of the last run says what each rule placed, as long as the text is the one that ran."""
    text = SMALL.replace("train {", f'train {{\n  directory = "{tmp_path}"')
    opened = Opened(text)
    spec = grammar.read("spec.tfdeploy", text=text).spec
    assert spec is not None
    made = make_map()
    line = text[: text.index("variables ->")].count("\n") + 1
    rule = evolve(made.variables[0].rule, file="spec.tfdeploy", line=line)
    variables = tuple(evolve(each, rule=rule, copies=(), bytes=1024) for each in made.variables)
    own = MapSpec("spec.tfdeploy", sha256(text.encode()).hexdigest())
    (tmp_path / "placement.json").write_text(evolve(made, spec=own, variables=variables).to_json())
    found = placements.placed_by_rules(opened.document, spec, [])
    assert found[line].variables == len(variables)
    assert sum(found[line].bytes.values()) == 1024 * len(variables)
    shown = hints.hints(opened.document, opened.trees, spec, found, WHOLE)
    label = next(each.label for each in shown if each.position.line == line - 1)
    assert "KiB on " in label
    changed = Opened(text + "\n")
    assert placements.placed_by_rules(changed.document, spec, []) == {}


def test_lenses_are_above_the_model() -> None:
    """A spec with a model can be planned, trained and verified; a part without one cannot."""
    found = commands.lenses(Opened(SMALL).document)
    assert [each.command.title for each in found if each.command] == ["Plan", "Train", "Verify"]
    assert {each.range.start.line for each in found} == {SMALL[: SMALL.index("model ")].count("\n")}
    assert commands.lenses(Opened("let { a = 1 }\n").document) == []
