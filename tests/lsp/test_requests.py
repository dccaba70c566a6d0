"""Requests and notifications as the server handles them, asked in this process."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from tests.lsp.texts import SMALL
from tfdeploy.lsp import server as module
from tfdeploy.lsp import settings
from tfdeploy.lsp.requests import RequestFailedError, create_server
from tfdeploy.lsp.server import LONGEST, NotSavedError, Runner, SpecServer
from tfdeploy.lsp.settings import Settings
from tfdeploy.runtime.launch.task_processes import SCRIPT

URI = "file:///nowhere/spec.tfdeploy"


@pytest.fixture
def server() -> Iterator[SpecServer]:
    """Return a server in which the small spec is open."""
    made = create_server(Settings((("train.steps", "3"),), allow_python=True))
    opened(made, SMALL)
    yield made
    made.shutdown()


def opened(server: SpecServer, text: str) -> None:
    """Open a text without reading it."""
    server.documents.open(URI, 1, text)
    server._states[URI] = module._State()


def ask(server: SpecServer, method: str, params: object) -> Any:
    """Return what a request is answered."""
    found = server.protocol.fm.features[method](params)
    return asyncio.run(found) if asyncio.iscoroutine(found) else found


def place(text: str, mark: str) -> types.Position:
    """Return the position of a mark in a text."""
    before = text[: text.index(mark)]
    return types.Position(before.count("\n"), len(before.rpartition("\n")[2]))


def test_the_server_says_when_it_wants_to_be_asked(server: SpecServer) -> None:
    """After which characters, for which actions, and by which words tokens are told."""
    options: dict[str, Any] = server.protocol.fm.feature_options
    completion = options[types.TEXT_DOCUMENT_COMPLETION]
    assert completion.trigger_characters == [".", "[", "(", ",", "=", ">", " "]
    assert completion.resolve_provider is True
    assert options[types.TEXT_DOCUMENT_SIGNATURE_HELP].trigger_characters == ["(", ","]
    actions = options[types.TEXT_DOCUMENT_CODE_ACTION]
    assert actions.code_action_kinds == [types.CodeActionKind.QuickFix, "source.fixAll.tfdeploy"]
    assert options[types.TEXT_DOCUMENT_RENAME].prepare_provider is True
    for method in (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE):
        legend = options[method]
        assert tuple(legend.token_types) == settings.TOKEN_TYPES
        assert tuple(legend.token_modifiers) == settings.TOKEN_MODIFIERS
    assert list(server.protocol.fm.commands) == ["tfdeploy.plan", "tfdeploy.run", "tfdeploy.verify"]
    assert server.protocol.server_info.name == "tfdeploy"  # type: ignore[union-attr]  # there is one


@pytest.mark.parametrize("snippets", [True, False, None])
def test_snippets_are_for_editors_that_know_them(
    server: SpecServer, monkeypatch: pytest.MonkeyPatch, *, snippets: bool | None
) -> None:
    """One that says nothing of them gets names alone."""
    known = types.ClientCompletionItemOptions(snippet_support=snippets)
    text_document = types.TextDocumentClientCapabilities(
        completion=types.CompletionClientCapabilities(completion_item=known)
    )
    if snippets is None:
        text_document = types.TextDocumentClientCapabilities()
    capabilities = types.ClientCapabilities(text_document=text_document)
    monkeypatch.setattr(type(server), "client_capabilities", capabilities)
    params = types.CompletionParams(types.TextDocumentIdentifier(URI), place(SMALL, "Dense(10)"))
    items = ask(server, types.TEXT_DOCUMENT_COMPLETION, params).items
    inserted = {each.label: each.text_edit.new_text for each in items}
    assert inserted["Conv2D"] == ("Conv2D(${1:filters}, ${2:kernel_size})" if snippets else "Conv2D")


@pytest.mark.parametrize(("dynamic", "asked"), [(True, True), (False, False), (None, False)])
def test_the_server_asks_for_files_to_be_watched(
    server: SpecServer, monkeypatch: pytest.MonkeyPatch, *, dynamic: bool | None, asked: bool
) -> None:
    """Specs and tables, of an editor that can be asked."""
    watching = None
    if dynamic is not None:
        watching = types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=dynamic)
    workspace = types.WorkspaceClientCapabilities(did_change_watched_files=watching)
    registered: list[types.Registration] = []
    prepared: list[int] = []
    monkeypatch.setattr(type(server), "client_capabilities", types.ClientCapabilities(workspace=workspace))
    monkeypatch.setattr(
        server, "client_register_capability", lambda params: registered.extend(params.registrations)
    )
    monkeypatch.setattr(server, "prepare", lambda: prepared.append(1))
    ask(server, types.INITIALIZED, types.InitializedParams())
    assert prepared == [1]
    found = [
        (each.method, watcher.glob_pattern)
        for each in registered
        for watcher in each.register_options.watchers  # type: ignore[union-attr]  # of this registration
    ]
    method = "workspace/didChangeWatchedFiles"
    assert found == ([(method, "**/*.tfdeploy"), (method, "**/*.csv")] if asked else [])


def test_all_documents_are_read_when_a_file_changes(
    server: SpecServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since it may be included by them, or be their data; a change of a text is read for itself."""
    other = "file:///nowhere/other.tfdeploy"
    server.documents.open(other, 1, "")
    read: list[str] = []
    monkeypatch.setattr(server, "read_soon", read.append)
    ask(server, types.TEXT_DOCUMENT_DID_SAVE, None)
    ask(server, types.WORKSPACE_DID_CHANGE_WATCHED_FILES, None)
    assert read == [URI, other] * 2
    read.clear()
    change = types.TextDocumentContentChangeWholeDocument("let {}")
    params = types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(7, other), [change])
    ask(server, types.TEXT_DOCUMENT_DID_CHANGE, params)
    assert read == [other]
    assert (server.documents.at(other).version, server.documents.at(other).text) == (7, "let {}")


# --- commands ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "end"), [(0, types.MessageType.Info, "done"), (1, types.MessageType.Error, "failed")]
)
def test_a_command_is_told_of_at_its_end(
    server: SpecServer, monkeypatch: pytest.MonkeyPatch, code: int, kind: types.MessageType, end: str
) -> None:
    """It has the settings of the server as options, and its lines are in the log meanwhile."""
    logged: list[tuple[types.MessageType, str]] = []
    shown: list[tuple[types.MessageType, str]] = []
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(server, "window_log_message", lambda each: logged.append((each.type, each.message)))
    monkeypatch.setattr(server, "window_show_message", lambda each: shown.append((each.type, each.message)))

    async def run(
        self: Runner, name: str, document: Any, options: Any, tell: Callable[[str], None]
    ) -> object:
        del self
        asked.append((name, document.uri, options))
        tell("a line")
        return {"code": code, "output": "a line"}

    monkeypatch.setattr(Runner, "run", run)
    command: Any = server.protocol.fm.commands["tfdeploy.run"]
    assert asyncio.run(command(URI)) == {"code": code, "output": "a line"}
    assert asked == [("tfdeploy.run", URI, ("--set=train.steps=3", "--allow-python"))]
    assert logged == [(types.MessageType.Info, "a line")]
    assert shown == [(kind, f"Train: {end}; the log has its output")]

    async def refuse(*_: object) -> object:
        raise NotSavedError("save it first")

    monkeypatch.setattr(Runner, "run", refuse)
    with pytest.raises(RequestFailedError, match="save it first"):
        asyncio.run(command(URI))


class Process:
    """A process that writes some lines."""

    def __init__(self, lines: list[bytes], running: set[Any]) -> None:
        self.stdout = self
        self.lines = lines
        self.running = running
        self.ended = 0
        self.returncode: int | None = None

    async def readline(self) -> bytes:
        """Return the next line."""
        assert self in self.running
        return self.lines.pop(0) if self.lines else b""

    async def wait(self) -> int:
        """Return the exit code."""
        self.returncode = 3
        return 3

    def terminate(self) -> None:
        """End it, which is too late."""
        self.ended += 1
        raise ProcessLookupError


def test_a_command_is_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same Python, with the words of the command; of a long output the end is kept."""
    runner = Runner()
    lines = [b"\xff first\n", *[b"x" * 1000 + b"\n"] * 300, b"last"]
    process, started = Process(lines, runner._running), []

    async def start(*words: str, **streams: object) -> Process:
        started.append((words, streams))
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    path = tmp_path / "spec.tfdeploy"
    path.write_text("\ufefflet {\n}\n", newline="\r\n")
    document: Any = SimpleNamespace(path=str(path), text="let {\n}\n")
    told: list[str] = []
    done = asyncio.run(runner.run("tfdeploy.run", document, ("--set=a=1",), told.append))
    assert done["code"] == 3
    assert len(str(done["output"])) == LONGEST
    assert str(done["output"]).endswith("x\nlast")
    assert (told[0], told[-1], len(told)) == ("\ufffd first", "last", 302)
    ((words, streams),) = started
    assert words[4:] == ("compile-and-run", str(path), "--color=never", "--set=a=1")
    assert (str(words[1]), int(words[3])) == (str(SCRIPT), os.getpid())
    assert streams.pop("pass_fds") == (int(words[2]),)
    assert streams == {
        "stdin": asyncio.subprocess.DEVNULL,
        "stdout": asyncio.subprocess.PIPE,
        "stderr": asyncio.subprocess.STDOUT,
    }
    assert runner._running == set()
    runner._running.add(process)  # type: ignore[arg-type]  # one as it is needed here
    process.returncode = None
    asyncio.run(runner.stop())
    assert process.ended == 1
    for text, reason in (
        ("let {\n  a = 1\n}\n", "has changes that are not saved"),
        (None, "has to be saved first"),
    ):
        document.text = text
        if text is None:
            path.unlink()
        with pytest.raises(NotSavedError, match=reason):
            asyncio.run(runner.run("tfdeploy.run", document, (), told.append))
    assert len(started) == 1


# --- what is shown and known ------------------------------------------------------------------------------


def diagnostic(text: str) -> types.Diagnostic:
    """Return a diagnostic at the beginning of a text."""
    return types.Diagnostic(types.Range(types.Position(0, 0), types.Position(0, 1)), text)


def test_a_file_shows_what_all_specs_say_of_it_once(
    server: SpecServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of two specs has the findings of both; what one no longer says disappears."""
    published: list[tuple[str, list[str], int | None]] = []

    def publish(params: types.PublishDiagnosticsParams) -> None:
        published.append((params.uri, [each.message for each in params.diagnostics], params.version))

    monkeypatch.setattr(server, "text_document_publish_diagnostics", publish)
    part = "file:///nowhere/part.tfdeploy"
    server._show(URI, {URI: [], part: [diagnostic("a"), diagnostic("b")]})
    server._show("file:///nowhere/other.tfdeploy", {part: [diagnostic("b"), diagnostic("c")]})
    server._show(URI, {URI: []})
    assert published == [
        (URI, [], 1),
        (part, ["a", "b"], None),
        (part, ["a", "b", "c"], None),
        (URI, [], 1),
        (part, ["b", "c"], None),
    ]


def test_the_last_reading_does_where_time_counts(server: SpecServer) -> None:
    """Completion has the names of an earlier text; what has to be exact reads each version once."""
    first = server.latest(URI)
    assert server.findings(URI) is first
    server.documents.change(URI, 2, "let {\n  a = 1\n}\n")
    assert server.latest(URI) is first
    second = server.findings(URI)
    assert [each.symbol.name for each in second.names.uses] == ["a"]
    assert server.latest(URI) is server.findings(URI) is second
    assert server.last_spec(URI) is None


def test_an_open_part_of_a_spec_is_read_with_it(server: SpecServer, tmp_path: Path) -> None:
    """What is asked of the part is answered from the reading of the spec, until the part changes."""
    main, part = (tmp_path / name for name in ("main.tfdeploy", "part.tfdeploy"))
    main.write_text(SMALL.replace("tfdeploy = 1\n", 'tfdeploy = 1\ninclude = ["part.tfdeploy"]\n'))
    uri = part.as_uri()
    server.documents.open(uri, 1, "let {\n  depth = 3\n}\n")
    server.documents.find_specs_with(server.documents.at(uri))
    server._states[uri] = module._State()
    found = server.findings(uri)
    assert [Path(each).name for each in found.paths] == ["main.tfdeploy", "part.tfdeploy"]
    assert server.findings(uri) is found
    server.documents.open(URI, 2, "let {")
    assert server.findings(uri) is found
    server.documents.change(uri, 2, "let {\n  deep = 3\n}\n")
    assert "deep" in {each.symbol.name for each in server.findings(uri).names.uses}
