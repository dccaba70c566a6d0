"""Faults of tfdeploy itself: they are reported, and the server goes on."""

import asyncio
import time

import pytest
from lsprotocol import types

from tests.lsp.texts import SMALL
from tfdeploy.lsp import diagnostics
from tfdeploy.lsp import server as module
from tfdeploy.lsp.diagnostics import Findings
from tfdeploy.lsp.documents import Document
from tfdeploy.lsp.requests import create_server
from tfdeploy.lsp.settings import Settings


def test_a_fault_while_reading_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of the editor says which text could not be read; the next version of it is read again."""
    server = create_server(Settings())
    told: list[str] = []
    shown: list[types.PublishDiagnosticsParams] = []
    monkeypatch.setattr(server, "window_log_message", lambda params: told.append(params.message))
    monkeypatch.setattr(server, "text_document_publish_diagnostics", shown.append)
    examine = diagnostics.examine

    def failing(document: Document, texts: dict[str, str], settings: Settings) -> Findings:
        if document.version == 1:
            raise ZeroDivisionError("a fault")
        return examine(document, texts, settings)

    monkeypatch.setattr(diagnostics, "examine", failing)
    uri = "file:///nowhere/spec.tfdeploy"

    async def typing() -> None:
        server.documents.open(uri, 1, SMALL)
        server._states[uri] = module._State()
        server.read_soon(uri)
        await server.settled(uri)
        server.documents.change(uri, 2, "tfdeploy = 1")
        server.read_soon(uri)
        await server.settled(uri)

    asyncio.run(typing())
    server.shutdown()
    assert [("/nowhere/spec.tfdeploy" in each, "ZeroDivisionError" in each) for each in told] == [
        (True, True)
    ]
    assert [(each.version, [one.code for one in each.diagnostics]) for each in shown] == [(2, ["TFD204"])]


def test_the_reader_is_imported_before_others_import_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that import a package and a part of it at once can end in Python's `_DeadlockError`."""
    server = create_server(Settings())
    seen: list[str] = []

    def prepare() -> None:
        time.sleep(0.05)
        seen.append("imported")

    async def open_document() -> None:
        server.opened("file:///nowhere/spec.tfdeploy", 1, SMALL)

    monkeypatch.setattr(module, "_prepare", prepare)
    monkeypatch.setattr(type(server.documents), "find_specs_with", lambda *_: seen.append("looked for specs"))
    monkeypatch.setattr(server, "read_soon", lambda _: seen.append("read"))
    monkeypatch.setattr(type(server), "server_capabilities", types.ServerCapabilities())
    asyncio.run(open_document())
    server.shutdown()
    assert seen == ["imported", "looked for specs", "read"]
