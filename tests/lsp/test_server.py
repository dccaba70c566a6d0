"""The server as a process: its start and end, its documents, and what it does about faults."""

import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from attrs import evolve
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from compiler.mapping.records import MapSpec
from tests.lsp.editor import Editor
from tests.lsp.texts import SMALL, including
from tests.placement_maps import make_map

WRONG = SMALL.replace("mode = sync", "mode = snyc")


def place(line: int, start: int, end: int) -> types.Range:
    """Return a range within a line."""
    return types.Range(types.Position(line, start), types.Position(line, end))


def test_diagnostics_follow_what_is_typed(editor: Editor) -> None:
    """A wrong word is reported, and gone when it is put right by a change of a part of the text."""
    found = editor.open("typed.tfdeploy", WRONG)
    line = WRONG[: WRONG.index("snyc")].count("\n")
    assert [(each.code, each.range) for each in found] == [("TFD401", place(line, 9, 13))]
    change = types.TextEdit(place(line, 9, 13), "sync")
    assert editor.change("typed.tfdeploy", change) == []


def test_documents_are_independent(editor: Editor) -> None:
    """What is wrong with one document is not said of another, and closing takes back what was said."""
    assert editor.open("one.tfdeploy", SMALL) == []
    assert len(editor.open("other.tfdeploy", WRONG)) == 1
    assert editor.replace("one.tfdeploy", SMALL) == []
    editor.close("other.tfdeploy")
    assert not editor.wait_for("other.tfdeploy", lambda each: each.version is None).diagnostics


def test_a_fault_in_a_request_is_its_answer(editor: Editor) -> None:
    """A request for a document that is not open is an error; the next request is answered."""
    editor.open("alive.tfdeploy", SMALL)
    nowhere = types.TextDocumentIdentifier("file:///nowhere.tfdeploy")
    with pytest.raises(JsonRpcException):
        editor.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(nowhere, types.Position(0, 0)))
    found = editor.ask(
        types.TEXT_DOCUMENT_HOVER, types.HoverParams(*editor.at("alive.tfdeploy", SMALL, "mode = sync"))
    )
    assert "when gradients are applied" in found.contents.value.lower()


def test_hover_shows_the_shape_of_a_tensor(editor: Editor) -> None:
    """A tensor whose shape is certain without Keras is shown with it."""
    editor.open("shape.tfdeploy", SMALL)
    params = types.HoverParams(*editor.at("shape.tfdeploy", SMALL, "hidden -> Dense"))
    text = editor.ask(types.TEXT_DOCUMENT_HOVER, params).contents.value
    assert "hidden = image -> twice" in text
    assert "`[8]`" in text


def test_a_broken_text_cannot_be_formatted(editor: Editor) -> None:
    """Formatting a text with errors of syntax is refused with the error; its text stays."""
    editor.open("broken.tfdeploy", SMALL.replace("steps = 10", "steps = = 10"))
    document = types.TextDocumentIdentifier(editor.uri("broken.tfdeploy"))
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    lines = types.DocumentRangeFormattingParams(document, place(0, 0, 5), options)
    for method, params in (
        (types.TEXT_DOCUMENT_FORMATTING, types.DocumentFormattingParams(document, options)),
        (types.TEXT_DOCUMENT_RANGE_FORMATTING, lines),
    ):
        with pytest.raises(JsonRpcException, match=r"errors of syntax cannot be formatted: .*=") as caught:
            editor.ask(method, params)
        assert caught.value.code == -32803


def test_words_over_the_protocol(editor: Editor) -> None:
    """Completion, its details and signature help are answered in the form that the protocol wants."""
    text = SMALL.replace("-> Dense(10)", "-> Den(10)")
    editor.open("words.tfdeploy", text)
    at = editor.at("words.tfdeploy", text, "-> Den(10)", 6)
    found = editor.ask(types.TEXT_DOCUMENT_COMPLETION, types.CompletionParams(*at))
    item = next(each for each in found.items if each.label == "Dense")
    assert item.text_edit.new_text == "Dense(${1:units})"
    assert item.text_edit.range.start.character == at[1].character - 3
    assert "densely-connected" in editor.ask(types.COMPLETION_ITEM_RESOLVE, item).documentation.value
    inside = editor.at("words.tfdeploy", text, "feature(int32, [], 10)", 19)
    params = types.SignatureHelpParams(*inside)
    help_ = editor.ask(types.TEXT_DOCUMENT_SIGNATURE_HELP, params)
    assert (help_.signatures[0].label.partition("(")[0], help_.active_parameter) == ("feature", 2)


def test_nothing_heavy_is_loaded() -> None:
    """What the server answers with loads neither TensorFlow nor Keras; then garbage is looked for again."""
    program = (
        "import gc, sys; gc.disable(); "
        "from tests.lsp.texts import Opened, SMALL; from tfdeploy.lsp import server; "
        "from tfdeploy.lsp.features import completion, hover; "
        "from tfdeploy.lsp.diagnostics import *; from tfdeploy.lsp.settings import Settings; "
        "o = Opened(SMALL.replace('-> Dense(10)', '-> |Dense(10)')); "
        "examine(o.document, {}, Settings()); "
        "hover.hover(o.place); "
        "completion.complete(o.place, snippets=True); "
        "print(*{name.partition('.')[0] for name in sys.modules} & {'tensorflow', 'keras', 'numpy', 'rich'});"
        " server._prepare(); print(gc.isenabled(), gc.get_freeze_count() > 10_000)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\nTrue True\n"


def test_every_request_is_answered(editor: Editor) -> None:
    """Each feature is answered over the protocol, for an editor that says that it has all of them."""
    editor.open("all.tfdeploy", SMALL)
    document, at = editor.at("all.tfdeploy", SMALL, "hidden -> Dense")
    context = types.ReferenceContext(include_declaration=True)
    whole = types.Range(types.Position(0, 0), types.Position(60, 0))
    asked = {
        types.TEXT_DOCUMENT_DEFINITION: types.DefinitionParams(document, at),
        types.TEXT_DOCUMENT_REFERENCES: types.ReferenceParams(context, document, at),
        types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: types.DocumentHighlightParams(document, at),
        types.TEXT_DOCUMENT_PREPARE_RENAME: types.PrepareRenameParams(document, at),
        types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: types.DocumentSymbolParams(document),
        types.WORKSPACE_SYMBOL: types.WorkspaceSymbolParams("hid"),
        types.TEXT_DOCUMENT_FOLDING_RANGE: types.FoldingRangeParams(document),
        types.TEXT_DOCUMENT_SELECTION_RANGE: types.SelectionRangeParams(document, [at]),
        types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: types.SemanticTokensParams(document),
        types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE: types.SemanticTokensRangeParams(document, whole),
        types.TEXT_DOCUMENT_INLAY_HINT: types.InlayHintParams(document, whole),
        types.TEXT_DOCUMENT_CODE_LENS: types.CodeLensParams(document),
    }
    assert [method for method, params in asked.items() if not editor.ask(method, params)] == []
    assert editor.ask(types.TEXT_DOCUMENT_DOCUMENT_LINK, types.DocumentLinkParams(document)) == ()


def test_fixes_over_the_protocol(editor: Editor) -> None:
    """A wrong word has a quick fix; all safe fixes together are what `check --fix` does; `fmt` formats."""
    text = SMALL.replace("mode = sync", "mode = 'sync'").replace("steps = 10", "steps   = 10")
    found = editor.open("fixes.tfdeploy", text)
    document = types.TextDocumentIdentifier(editor.uri("fixes.tfdeploy"))
    params = types.CodeActionParams(document, found[0].range, types.CodeActionContext(found))
    actions = {each.kind: each for each in editor.ask(types.TEXT_DOCUMENT_CODE_ACTION, params)}
    assert set(actions) == {types.CodeActionKind.QuickFix, "source.fixAll.tfdeploy"}
    for each in actions.values():
        (edits,) = each.edit.changes.values()
        editor.open("fixes.tfdeploy", text)
        assert editor.change("fixes.tfdeploy", *reversed(edits)) == []
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    edits = editor.ask(types.TEXT_DOCUMENT_FORMATTING, types.DocumentFormattingParams(document, options))
    assert [each.new_text for each in edits] == ["  steps = 10\n"]
    other = types.DocumentRangeFormattingParams(document, place(0, 0, 5), options)
    assert editor.ask(types.TEXT_DOCUMENT_RANGE_FORMATTING, other) == ()


def test_renaming_over_the_protocol(editor: Editor) -> None:
    """A name that is taken is refused with the reason; another one gives edits."""
    editor.open("rename.tfdeploy", SMALL)
    document, at = editor.at("rename.tfdeploy", SMALL, "hidden -> Dense")
    with pytest.raises(JsonRpcException, match="defined already"):
        editor.ask(types.TEXT_DOCUMENT_RENAME, types.RenameParams(document, at, "logits"))
    edit = editor.ask(types.TEXT_DOCUMENT_RENAME, types.RenameParams(document, at, "inner"))
    assert [len(each) for each in edit.changes.values()] == [2]


def test_symbols_of_the_workspace_over_the_protocol(editor: Editor) -> None:
    """A spec that lies in the folder of the editor is searched too, though nobody has opened it."""
    (editor.folder / "closed.tfdeploy").write_text("let {\n  only_in_the_file = 8\n}\n")
    found = editor.ask(types.WORKSPACE_SYMBOL, types.WorkspaceSymbolParams("only_in"))
    assert [(each.name, each.location.uri) for each in found] == [
        ("only_in_the_file", editor.uri("closed.tfdeploy"))
    ]


def test_a_command_needs_a_saved_file(editor: Editor) -> None:
    """What would run is the file, so that a text that is not saved is refused."""
    editor.open("unsaved.tfdeploy", SMALL)
    params = types.ExecuteCommandParams("tfdeploy.plan", [editor.uri("unsaved.tfdeploy")])
    with pytest.raises(JsonRpcException, match="saved first"):
        editor.ask(types.WORKSPACE_EXECUTE_COMMAND, params)


def test_a_command_shows_its_output(editor: Editor) -> None:
    """A command runs as a process; its exit code and output are the answer, and its lines are in the log."""
    wrong = SMALL.replace("optimizer = Adam(1e-3)", "optimizer = Adan(1e-3)")
    (editor.folder / "saved.tfdeploy").write_text(wrong)
    editor.open("saved.tfdeploy", wrong)
    params = types.ExecuteCommandParams("tfdeploy.plan", [editor.uri("saved.tfdeploy")])
    done = editor.ask(types.WORKSPACE_EXECUTE_COMMAND, params)
    assert done["code"] == 1
    assert "TFD404" in done["output"]
    assert any("TFD404" in each.message for each in editor.client.log_messages)


def test_fast_typing_ends_in_what_is_there(editor: Editor) -> None:
    """Of many changes in a row the last is what is reported, however few of those before were read."""
    editor.open("fast.tfdeploy", SMALL)
    line = SMALL[: SMALL.index("steps = 10")].count("\n")
    column = len("  steps = 10")
    for number in range(8):
        at = types.Position(line, column + number)
        change = types.TextEdit(types.Range(at, at), "x")
        found = editor.change("fast.tfdeploy", change, wait=number == 7)
    assert [each.range.end.character for each in found] == [column + 8]


def test_an_open_part_is_reported_by_its_spec(editor: Editor) -> None:
    """A file that a spec includes is no spec of its own: what is said of it is what the spec says."""
    main = including("part.tfdeploy")
    (editor.folder / "part.tfdeploy").write_text("let { width = 8 }\n")
    assert editor.open("main.tfdeploy", main) == []
    assert editor.open("part.tfdeploy", "let { width = 8 }\n") == []
    found = editor.replace("part.tfdeploy", "let { width = eight }\n")
    assert [each.code for each in found] == ["TFD401"]
    part = types.TextDocumentIdentifier(editor.uri("part.tfdeploy"))
    wrong = "let { width = 'eight' }\n"
    found = editor.replace("part.tfdeploy", wrong)
    params = types.CodeActionParams(part, place(0, 14, 21), types.CodeActionContext(found))
    actions = editor.ask(types.TEXT_DOCUMENT_CODE_ACTION, params)
    for each in actions:
        assert set(each.edit.changes) == {part.uri}, "what a part lacks as a spec is no fault of it"
        (edit,) = each.edit.changes[part.uri]
        assert '"eight"' in edit.new_text
    assert [each.kind for each in actions] == [types.CodeActionKind.QuickFix, "source.fixAll.tfdeploy"]
    (place_,) = editor.ask(
        types.TEXT_DOCUMENT_DEFINITION,
        types.DefinitionParams(*editor.at("main.tfdeploy", main, "= width", 3)),
    )
    assert place_.uri == editor.uri("part.tfdeploy")
    editor.close("part.tfdeploy")  # after which it counts as it is in the file
    assert not editor.wait_for("part.tfdeploy", lambda each: each.version is None).diagnostics


def test_files_that_change_outside_of_the_editor_count(editor: Editor) -> None:
    """The server asks to be told of changed files, and reads open specs again when it is."""
    outside = editor.folder / "outside.tfdeploy"
    outside.write_text("let { width = 8 }\n")
    assert editor.open("inside.tfdeploy", including("outside.tfdeploy")) == []
    assert types.WORKSPACE_DID_CHANGE_WATCHED_FILES in editor.registered
    outside.write_text("let { width = eight }\n")
    event = types.FileEvent(outside.as_uri(), types.FileChangeType.Changed)
    editor.tell(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, types.DidChangeWatchedFilesParams([event]))
    found = editor.wait_for("outside.tfdeploy", lambda each: len(each.diagnostics) > 0)
    assert [each.code for each in found.diagnostics] == ["TFD401"]


def test_the_map_of_the_last_run_over_the_protocol(editor: Editor) -> None:
    """Beside a rule and when one points at it stands what it placed; its variables are offered as globs.

    When the text has changed, only the names of the variables are still used.
    """
    text = SMALL.replace("train {", 'train {\n  directory = "placed"')
    line = text[: text.index("variables ->")].count("\n")
    made = make_map()
    rule = evolve(made.variables[0].rule, file="placed.tfdeploy", line=line + 1)
    variables = tuple(evolve(each, rule=rule, copies=(), bytes=1024) for each in made.variables)
    own = MapSpec("placed.tfdeploy", sha256(text.encode()).hexdigest())
    (editor.folder / "placed").mkdir()
    (editor.folder / "placed" / "placement.json").write_text(
        evolve(made, spec=own, variables=variables).to_json()
    )
    assert editor.open("placed.tfdeploy", text) == []
    document, at = editor.at("placed.tfdeploy", text, "variables ->", 3)
    hints = types.InlayHintParams(document, place(line, 0, 30))

    def said() -> str:
        return str(editor.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(document, at)).contents.value)

    assert f"In the last run it placed {len(variables)} variables: " in said()
    assert [each.label.split()[1:3] for each in editor.ask(types.TEXT_DOCUMENT_INLAY_HINT, hints)] == [
        ["KiB", "on"]
    ]
    column = len("  variables")
    name = variables[0].name
    editor.change("placed.tfdeploy", types.TextEdit(place(line, column, column), '("")'))
    inside = types.CompletionParams(document, types.Position(line, column + 2))
    offered = {each.label for each in editor.ask(types.TEXT_DOCUMENT_COMPLETION, inside).items}
    assert {name, f"{name.split('/')[0]}/*"} <= offered
    assert "In the last run" not in said()
    assert editor.ask(types.TEXT_DOCUMENT_INLAY_HINT, hints) == ()


def test_ctrl_c_ends_the_server(tmp_path: Path) -> None:
    """Also while a thread waits for a message."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tfdeploy", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    )
    with process:
        asked = (
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":null,"capabilities":{}}}'
        )
        process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(asked), asked))
        process.stdin.flush()
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT
