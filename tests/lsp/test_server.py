"""The server as a process: its start and end, its documents, and what it does about faults."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.lsp.texts import SMALL

if TYPE_CHECKING:
    from tests.lsp.editor import Editor

WRONG = SMALL.replace("mode = sync", "mode = snyc")


def place(line: int, start: int, end: int) -> types.Range:
    """Return a range within a line."""
    return types.Range(types.Position(line, start), types.Position(line, end))


def test_diagnostics_follow_what_is_typed(editor: Editor) -> None:
    """A wrong word is reported, and gone when it is put right by a change of a part of the text."""
    found = editor.open("typed.tfdeploy", WRONG)
    line = WRONG[: WRONG.index("snyc")].count("\n")
    assert [(each.code, each.range) for each in found] == [("TFD401", place(line, 9, 13))]
    change = types.TextDocumentContentChangePartial(place(line, 9, 13), "sync")
    assert editor.change("typed.tfdeploy", change) == []


def test_several_changes_apply_one_after_the_other(editor: Editor) -> None:
    """Later places of one message are those after the earlier changes; columns are UTF-16 units."""
    text = SMALL.replace("tfdeploy = 1\n", 'tfdeploy = 1 # 😀 "sign"\n')
    assert editor.open("changes.tfdeploy", text) == []
    comment = types.TextDocumentContentChangePartial(place(0, 13, 17), "# é😀é ")
    after = types.TextDocumentContentChangePartial(place(0, 11, 12), "2")
    found = editor.change("changes.tfdeploy", comment, after)
    assert [(each.code, each.range) for each in found] == [("TFD207", place(0, 11, 12))]


def test_documents_are_independent(editor: Editor) -> None:
    """What is wrong with one document is not said of another, and closing takes back what was said."""
    assert editor.open("one.tfdeploy", SMALL) == []
    assert len(editor.open("other.tfdeploy", WRONG)) == 1
    assert editor.replace("one.tfdeploy", SMALL) == []
    editor.close("other.tfdeploy")
    assert editor.diagnostics("other.tfdeploy", version=None) is not None


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


def test_a_broken_text_cannot_be_formatted(editor: Editor) -> None:
    """Formatting a text with errors of syntax is refused with the error; its text stays."""
    editor.open("broken.tfdeploy", SMALL.replace("steps = 10", "steps = = 10"))
    document = types.TextDocumentIdentifier(editor.uri("broken.tfdeploy"))
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    with pytest.raises(JsonRpcException, match="cannot be formatted"):
        editor.ask(types.TEXT_DOCUMENT_FORMATTING, types.DocumentFormattingParams(document, options))


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
    """What the server answers with loads neither TensorFlow nor Keras."""
    program = (
        "import sys; from tests.lsp.texts import Opened, SMALL; from tfdeploy.lsp import server; "
        "from tfdeploy.lsp.features import completion, hover; from tfdeploy.lsp.diagnostics import *; "
        "o = Opened(SMALL.replace('-> Dense(10)', '-> |Dense(10)')); "
        "examine(o.document, {}, Settings()); "
        "hover.hover(o.document, o.trees, o.names, o.offset); "
        "completion.complete(o.document, o.trees, o.names, o.offset, snippets=True); "
        "print(*{name.partition('.')[0] for name in sys.modules} & {'tensorflow', 'keras', 'numpy', 'rich'})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
