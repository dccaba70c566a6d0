"""Symbols, folding, selection, links, semantic tokens, hints and lenses of a text."""

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
from tfdeploy.lsp import known, settings
from tfdeploy.lsp.documents import Documents
from tfdeploy.lsp.features import colors, navigation
from tfdeploy.lsp.features.navigation import matching
from tfdeploy.lsp.server import lenses

WHOLE = types.Range(types.Position(0, 0), types.Position(999, 0))


def _text_of(text: str, range_: types.Range) -> str:
    """Return what is in a range of one line."""
    return text.split("\n")[range_.start.line][range_.start.character : range_.end.character]


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

    def found() -> list[tuple[str, str, str | None]]:
        named = matching("WIDTH", shown, [str(tmp_path), str(tmp_path / "sub")])
        return [(each.location.uri.rpartition("/")[2], each.name, each.container_name) for each in named]

    assert found() == [
        ("shown.tfdeploy", "new_width", "let"),
        ("one.tfdeploy", "width", "let"),
        ("broken.tfdeploy", "width_3", "let"),
        ("two.tfdeploy", "other_width", "let"),
    ]
    (tmp_path / "one.tfdeploy").write_text("let {\n  height = 8\n}\n")
    (tmp_path / "sub" / "two.tfdeploy").unlink()
    assert [name for _, name, _ in found()] == ["new_width", "width_3"]


def test_blocks_of_a_workspace_have_no_container(tmp_path: Path) -> None:
    """A block is found by its own name; what is in it says in which block it is. Packages are left out."""
    for folder in (tmp_path, tmp_path / "node_modules"):
        folder.mkdir(exist_ok=True)
        (folder / "one.tfdeploy").write_text('layer "width" {\n  width = input()\n}\n')
    found = matching("width", [], [str(tmp_path)])
    assert [(each.name, each.container_name) for each in found] == [
        ("layer width", None),
        ("width", "layer width"),
    ]


def test_folds() -> None:
    """Blocks and items over several lines, and comments over several lines that have these for themselves."""
    text = "# one\n# two\ndevices {\n  cpu = 4 # three\n# four\n}\nlet {\n  a = [\n    1,\n  ]\n}\n"
    text += "# five\n\n# six\n# seven"
    found = {(each.start_line, each.end_line): each.kind for each in navigation.folds(Opened(text).document)}
    comment = types.FoldingRangeKind.Comment
    assert found == {(0, 1): comment, (2, 4): None, (6, 9): None, (7, 8): None, (13, 14): comment}


def test_links_lead_to_files_that_are_there() -> None:
    """The data files of an example are links; a file that is not there is none."""
    spec = EXAMPLES / "digits.tfdeploy"
    opened = Opened(spec.read_text().replace("digits/test.csv", "digits/nowhere.csv"), spec)
    found = navigation.links(opened.document)
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
        found[line, column] = (text, settings.TOKEN_TYPES[data[at + 3]])
        assert data[at + 4] == 0 or found[line, column][1] not in {"keyword", "number", "operator"}, text
    return found


def test_tokens_of_some_lines_are_those_of_the_text() -> None:
    """A range has the tokens from the beginning of its first line to its end."""
    opened = Opened(SMALL)
    range_ = types.Range(types.Position(6, 5), types.Position(7, 2))
    some = colors.semantic_tokens(opened.document, opened.names, range_).data
    assert some[:5] == [6, 0, 5, settings.TOKEN_TYPES.index("keyword"), 0]
    assert [some[at] for at in range(0, len(some), 5)].count(1) == 1
    assert some[-5:-3] == [1, 2]


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
        for each in colors.hints(opened.document, opened.trees, spec, {}, WHOLE)
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


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        ("batch = 8", "batch = 8", "32 for all 4 clones"),
        ("batch = 8", "batch = [1, 2, 3, 4]", "10 for all 4 clones"),
        ("batch = 8", "global_batch = 8", "2 for each of 4 clones"),
        ("clones -> cpu[*]", "clones -> cpu[0]", None),
        ("mode = sync", "accumulate = 2", None),
        ("  cpu = 4\n", "", None),
    ],
)
def test_hints_of_batches(old: str, new: str, label: str | None) -> None:
    """Of one clone nothing is said, nor of clones that get different numbers, or of unknown devices."""
    text = SMALL.replace(old, new)
    if "cpu[0]" in new:
        text = text.replace("batch = 8", "count = 1\n  batch = 8")
    found = [each.partition("|")[2] for each in hints_of(text) if "clones" in each and "batch" in each]
    assert found == ([] if label is None else [label])


def test_hints_are_those_of_the_range_that_is_shown() -> None:
    """Both ends count; nothing else of the text is hinted at."""
    opened = Opened(SMALL)
    line = SMALL[: SMALL.index("-> scale(")].count("\n")
    column = len("    -> scale(")
    for start, end, labels in (
        (0, 99, ["name:", "factor:"]),
        (column, column, ["name:"]),
        (column + 1, column + 6, []),
        (column + 1, column + 7, ["factor:"]),
    ):
        range_ = types.Range(types.Position(line, start), types.Position(line, end))
        found = colors.hints(opened.document, opened.trees, None, {}, range_)
        assert [each.label for each in found] == labels, (start, end)
        assert all(each.kind == types.InlayHintKind.Parameter and each.padding_right for each in found)


@pytest.mark.parametrize(
    ("devices", "more"), [(4, ""), (5, " and 1 more device"), (7, " and 3 more devices")]
)
def test_what_a_rule_has_placed_is_said_of_four_devices(devices: int, more: str) -> None:
    """The end of the line has sizes, or ops if no variables were placed; further devices are counted."""
    refs = [f"cpu[{at}]" for at in range(devices)]
    sizes, ops = dict.fromkeys(refs, 2048), {each: at + 1 for at, each in enumerate(refs)}
    four = "2.00 KiB on cpu[0], 2.00 KiB on cpu[1], 2.00 KiB on cpu[2], 2.00 KiB on cpu[3]"
    counts = "1 on cpu[0], 2 on cpu[1], 3 on cpu[2], 4 on cpu[3]"
    both = known.Placed(3, sizes, ops)
    assert both.short == four + more
    assert both.sentences == (
        f"In the last run it placed 3 variables: {four}{more}.",
        f"In the last run it placed {sum(ops.values())} ops: {counts}{more}.",
    )
    only_ops = known.Placed(0, {}, ops)
    assert only_ops.short == counts.replace(" on", " ops on") + more
    assert only_ops.sentences == both.sentences[1:]
    assert known.Placed(0, {}, {}).sentences == ()


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
    found = known.placed_by_rules(opened.document, spec, [])
    assert found[line].variables == len(variables)
    assert sum(found[line].bytes.values()) == 1024 * len(variables)
    shown = colors.hints(opened.document, opened.trees, spec, found, WHOLE)
    label = next(each.label for each in shown if each.position.line == line - 1)
    assert "KiB on " in label
    assert [each.padding_left for each in shown if each.position.line == line - 1] == [True]
    changed = Opened(text + "\n")
    assert known.placed_by_rules(changed.document, spec, []) == {}


def test_lenses_are_above_the_model() -> None:
    """A spec with a model can be planned, trained and verified; a part without one cannot."""
    found = lenses(Opened(SMALL).document)
    assert [each.command.title for each in found if each.command] == ["Plan", "Train", "Verify"]
    assert {each.range.start.line for each in found} == {SMALL[: SMALL.index("model ")].count("\n")}
    document = Opened(SMALL).document
    assert [each.command.arguments for each in found if each.command] == [[document.uri]] * 3
    assert {_text_of(SMALL, each.range) for each in found} == {'model "small"'}
    assert lenses(Opened("let { a = 1 }\nmodel = 2\n").document) == []
