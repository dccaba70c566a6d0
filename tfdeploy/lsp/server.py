"""The server: the open documents, and when they are read.

A text is read in another thread, one after the other, soon after it has changed. What changes while it is
being read is read when that is done, and of many changes only the last; so an answer never waits for more
than the reading that is under way and its own.

An editor waits for the first answer, to `initialize`, so what reads specs is imported after it.
"""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor, wait
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from attrs import define
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol.language_server import LanguageServerProtocol, lsp_method

from tfdeploy.lsp.documents.opened import Documents, path_of
from tfdeploy.lsp.features.commands import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from dsl import ir, syntax
    from grammar.kept.spec import KeptSpec
    from tfdeploy.lsp.documents.opened import Document
    from tfdeploy.lsp.features.workspace import Symbols
    from tfdeploy.lsp.reading.diagnostics import Findings
    from tfdeploy.lsp.reading.names import Names
    from tfdeploy.lsp.settings import Settings

PAUSE = 0.004
"""Seconds from a change to its reading, in which the completion that comes with the change is answered."""

NEW_BEFORE_LOOKING = 50_000
"""How many new objects Python makes before it looks for garbage among them: half of what one reading of a
long text makes. With Python's own 700 it looks through the syntax tree again and again while it is made."""


class _Protocol(LanguageServerProtocol):
    """The protocol of pygls without its own copy of the texts, which breaks lines at other characters too."""

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Iterator[Any]:
        """Pass a change on."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None


@define
class _State:
    """What is known of an open document beside its text.

    What the last reading found has places that move when the next one begins, which is done in the thread of
    the requests; so no request sees places of which some have moved.
    """

    findings: Findings | None = None
    spec: ir.Spec | None = None
    read: Names | None = None
    trees: tuple[syntax.File, ...] = ()
    names: Names | None = None
    parsed: Document | None = None
    task: asyncio.Task[None] | None = None
    again: bool = False
    kept: KeptSpec | None = None


class SpecServer(LanguageServer):
    """The language server for specs.

    Args:
        settings: How specs are read.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            "tfdeploy",
            version("tfdeploy"),
            types.TextDocumentSyncKind.Incremental,
            protocol_cls=_Protocol,
            max_workers=2,
        )
        self.settings = settings
        self.documents = Documents()
        self.runner = Runner()
        self._states: dict[str, _State] = {}
        self._reader = ThreadPoolExecutor(1, "reader")
        self._preparing: Future[None] | None = None
        self._symbols: Symbols | None = None
        self._shown: dict[str, dict[str, list[types.Diagnostic]]] = {}

    def prepare(self) -> Future[None]:
        """Import the reader in its thread, so that it is there when a document is opened.

        Returns:
            What is done when the reader is there.
        """
        if self._preparing is None:
            self._preparing = self._reader.submit(_prepare)
        return self._preparing

    # --- documents

    def opened(self, uri: str, version: int, text: str) -> None:
        """Add a document and read it.

        Args:
            uri: The address of the document.
            version: The number that the editor has given to the text.
            text: The whole text.
        """
        self.documents.encoding = (
            self.server_capabilities.position_encoding or types.PositionEncodingKind.Utf16
        )
        preparing = self.prepare()
        document = self.documents.open(uri, version, text)
        self._states[uri] = _State()
        wait(
            [preparing]
        )  # both import packages; two threads that do so at once can end in Python's deadlock error
        self.documents.find_specs_with(document)
        self.read_soon(uri)

    def closed(self, uri: str) -> None:
        """Forget a document, and take back what was shown for it."""
        self.documents.close(uri)
        state = self._states.pop(uri, None)
        if state is not None and state.task is not None:
            state.task.cancel()
        self._show(uri, {})
        for other in self._states:
            self.read_soon(other)

    def read_soon(self, uri: str) -> None:
        """Read a document, or the spec that it is a part of, as soon as no reading of it is under way."""
        document = self.documents.at(uri)
        root = self.documents.spec_with(document).uri
        if root != uri and root in self._states:
            self.read_soon(root)
            return
        state = self._states[uri]
        if state.task is not None and not state.task.done():
            state.again = True
            return
        state.task = asyncio.get_running_loop().create_task(self._read_all(uri, state))

    async def _read_all(self, uri: str, state: _State) -> None:
        """Read a document until what was read is its current version."""
        state.again = True
        while state.again:
            await asyncio.sleep(PAUSE)
            state.again = False
            await self._read(uri, state)

    async def _read(self, uri: str, state: _State) -> None:
        loop = asyncio.get_running_loop()
        document = self.documents.spec_with(self.documents.at(uri))
        from tfdeploy.lsp.reading import reader

        try:
            texts = self.documents.texts
            kept = state.kept = state.kept or reader.KeptSpec()
            kept.move(texts)
            found = await loop.run_in_executor(
                self._reader, reader.examine, document, texts, self.settings, kept
            )
            self.documents.note_includes(document, found.paths)
            if not state.again:
                self._show(uri, reader.by_file(found, self.documents))
            names = await loop.run_in_executor(self._reader, reader.names, found, kept)
        except Exception as fault:  # noqa: BLE001 a fault in one text must not end the server
            state.kept = None
            message = f"{document.path} could not be read because of a fault of tfdeploy: {fault!r}"
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))
            return
        document.note_tree(found.reading.trees)
        state.findings, state.read = found, names
        state.spec = found.reading.spec or state.spec

    def _show(self, root: str, shown: dict[str, list[types.Diagnostic]]) -> None:
        """Publish what one document gave, together with what others gave for the same files."""
        before = self._shown.get(root, {})
        self._shown[root] = shown
        for uri in {**before, **shown}:
            found: list[types.Diagnostic] = []
            for each in self._shown.values():
                found += [one for one in each.get(uri, []) if one not in found]
            version = next((each.version for each in self.documents if each.uri == uri), None)
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    # --- what requests need

    def findings(self, uri: str) -> Findings:
        """Return what reading the current version of a document, or of the spec that has it, gives."""
        root = self.documents.spec_with(self.documents.at(uri))
        state = self._states.get(root.uri)
        known = None if state is None else state.findings
        if known is not None and known.document is root and root.uri == uri:
            return known
        from tfdeploy.lsp.reading.diagnostics import examine

        return examine(root, self.documents.texts, self.settings)

    async def read(self, uri: str) -> Findings:
        """Return the same as `findings`, and let other requests be answered while the text is being read."""
        await self.settled(uri)
        return self.findings(uri)

    async def settled(self, uri: str) -> Document:
        """Return a document when the reading that is under way is done, so that nothing is parsed twice."""
        state = self._states.get(self.documents.spec_with(self.documents.at(uri)).uri)
        if state is not None and state.task is not None and not state.task.done():
            await asyncio.wait([state.task])
        return self.documents.at(uri)

    async def symbols(self, query: str) -> list[types.WorkspaceSymbol]:
        """Return the symbols of all specs of the workspace whose names contain some letters.

        Files are read in the thread that reads documents, so that other requests are answered meanwhile.
        """
        from tfdeploy.lsp.features.workspace import Symbols

        self._symbols = self._symbols or Symbols()
        workspace = self.workspace
        roots = [each.uri for each in workspace.folders.values()] or [workspace.root_uri or ""]
        folders = [path_of(each) for each in roots if each]
        loop = asyncio.get_running_loop()
        matching = self._symbols.matching
        return await loop.run_in_executor(self._reader, matching, query, tuple(self.documents), folders)

    def last_spec(self, uri: str) -> ir.Spec | None:
        """Return the last spec without errors that a document was, or None if there was none yet."""
        return self._states[uri].spec

    def names(self, uri: str, *, exact: bool = True) -> tuple[Document, Sequence[syntax.File], Names]:
        """Return a document, the syntax trees of its spec and the names in these.

        Args:
            uri: The address of the document.
            exact: Whether the trees have to be of the current version; if not, those of the last reading
                do, so that no time is lost with parsing.
        """
        document = self.documents.at(uri)
        root = self.documents.spec_with(document)
        state = self._states[root.uri if root.uri in self._states else uri]
        found = state.findings
        if found is not None and state.read is not None and (not exact or found.document is document):
            return document, found.reading.trees, state.read
        if state.names is None or state.parsed is not document or root is not document:
            from tfdeploy.lsp.reading.names import names_of

            state.trees = self.documents.trees(document)
            state.names = names_of(state.trees)
            state.parsed = document
        return document, state.trees, state.names


def _prepare() -> None:
    """Import what reads specs, and begin to look for garbage, which the command has put off until now.

    All that is there afterwards stays for good, so that Python looks for garbage in it only once.
    """
    gc.disable()
    try:
        from tfdeploy.lsp.reading import reader

        reader.prepare()
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(NEW_BEFORE_LOOKING)
