"""The server: the open documents, and when they are read.

Every change of a document starts a reading in another thread, after a pause that is as long as the last
reading took, so that of many changes in a row only the last is read.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from attrs import define, field
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol.language_server import LanguageServerProtocol, lsp_method

from tfdeploy.lsp.diagnostics import Settings, by_file, examine
from tfdeploy.lsp.documents import Documents
from tfdeploy.lsp.features.commands import Runner
from tfdeploy.lsp.names import Names, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl import syntax
    from tfdeploy.lsp.diagnostics import Findings
    from tfdeploy.lsp.documents import Document

LONGEST_PAUSE = 0.5
"""The longest time, in seconds, that the server waits for further changes before it reads a text."""

SMALL = 20_000
"""The number of characters up to which a text is parsed anew for each completion.

Longer texts are completed with the names of their last reading.
"""


class _Protocol(LanguageServerProtocol):
    """The protocol of pygls without its own copy of the texts, which breaks lines at other characters too."""

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Iterator[Any]:
        """Pass a change on."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None


@define
class _State:
    """What is known of an open document beside its text."""

    findings: Findings | None = None
    trees: tuple[syntax.File, ...] = ()
    names: Names | None = None
    parsed: Document | None = None
    pause: float = 0.0
    task: asyncio.Task[None] | None = None
    shown: set[str] = field(factory=set)


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
        self._shown: dict[str, dict[str, list[types.Diagnostic]]] = {}

    # --- documents

    def opened(self, uri: str, version: int, text: str) -> None:
        """Add a document and read it."""
        self.documents.encoding = (
            self.server_capabilities.position_encoding or types.PositionEncodingKind.Utf16
        )
        document = self.documents.open(uri, version, text)
        self.documents.find_specs_with(document)
        self._states[uri] = _State()
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
        """Read a document, or the spec that it is a part of, after a pause."""
        document = self.documents.at(uri)
        root = self.documents.spec_with(document).uri
        if root != uri and root in self._states:
            self.read_soon(root)
            return
        state = self._states[uri]
        if state.task is not None:
            state.task.cancel()
        state.task = asyncio.get_running_loop().create_task(self._read(uri, state))

    async def _read(self, uri: str, state: _State) -> None:
        await asyncio.sleep(min(state.pause, LONGEST_PAUSE))
        loop = asyncio.get_running_loop()
        document = self.documents.spec_with(self.documents.at(uri))
        started = loop.time()
        try:
            found = await loop.run_in_executor(
                self._reader, examine, document, self.documents.texts, self.settings
            )
        except Exception as fault:  # noqa: BLE001 a fault in one text must not end the server
            message = f"{document.path} could not be read because of a fault of tfdeploy: {fault!r}"
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))
            return
        state.pause = loop.time() - started
        state.findings = found
        self.documents.note_includes(document, found.paths)
        self._show(uri, by_file(found, self.documents))

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
        """Return what reading the current version of a document gives."""
        document = self.documents.at(uri)
        state = self._states[uri]
        if state.findings is None or state.findings.document is not document:
            state.findings = examine(document, self.documents.texts, self.settings)
        return state.findings

    def names(self, uri: str, *, exact: bool = True) -> tuple[Document, Sequence[syntax.File], Names]:
        """Return a document, the syntax trees of its spec and the names in these.

        Args:
            uri: The address of the document.
            exact: Whether the trees have to be of the current version of a long document too.
        """
        document = self.documents.at(uri)
        state = self._states[uri]
        root = self.documents.spec_with(document)
        stale = state.parsed is not document or root is not document
        if state.names is None or (stale and (exact or len(document.text) <= SMALL)):
            state.trees = self.documents.trees(document)
            state.names = names_of(state.trees)
            state.parsed = document
        return document, state.trees, state.names
