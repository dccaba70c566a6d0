"""An editor for tests: a client of the language server, which runs as a process of its own."""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features

from tfdeploy.lsp.documents import Positions

T = TypeVar("T")
PATIENCE = 60
"""How many seconds the tests wait for an answer before they call it missing."""


class Editor:
    """Talks to a server; its calls return when the answer is there.

    Args:
        folder: The folder of the documents.
        abilities: The editor whose abilities the client says that it has.
        arguments: Further arguments of `tfdeploy lsp`.
    """

    def __init__(
        self, folder: Path, abilities: str = "visual_studio_code", arguments: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._versions: dict[str, int] = {}
        self._texts: dict[str, str] = {}
        self._published: dict[str, list[types.PublishDiagnosticsParams]] = {}
        self._news = threading.Condition()
        self.registered: list[str] = []
        self.client = LanguageClient(converter_factory=default_converter)
        own = {types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS}
        kept = {name: each for name, each in DEFAULT_CLIENT_FEATURES.items() if name not in own}
        register_lsp_features(self.client, kept)
        self.answer = self._await(self._start(abilities, arguments))

    async def _start(self, abilities: str, arguments: Sequence[str]) -> types.InitializeResult:
        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            with self._news:
                self._published.setdefault(params.uri, []).append(params)
                self._news.notify_all()

        @self.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            self.registered += [each.method for each in params.registrations]

        await self.client.start_io(sys.executable, "-m", "tfdeploy", "lsp", *arguments)
        return await self.client.initialize_session(
            types.InitializeParams(client_capabilities(abilities), root_uri=self.folder.as_uri())
        )

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    @property
    def pid(self) -> int:
        """The number of the server's process."""
        return int(self.client._server.pid)

    def ask(self, method: str, params: Any) -> Any:
        """Send a request and return its result; an error of the server is raised."""
        return self._await(self.client.protocol.send_request_async(method, params))

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._loop.call_soon_threadsafe(self.client.protocol.notify, method, params)

    # --- documents

    def uri(self, name: str) -> str:
        """Return the address of a document."""
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> list[types.Diagnostic]:
        """Open a document and return its diagnostics."""
        uri = self.uri(name)
        self._versions[uri], self._texts[uri] = 1, text
        with self._news:
            self._published.pop(uri, None)
        item = types.TextDocumentItem(uri, "tfdeploy", 1, text)
        self.tell(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))
        return self.diagnostics(name)

    def change(self, name: str, *edits: types.TextEdit, wait: bool = True) -> list[types.Diagnostic]:
        """Edit a document, one edit after the other, and with `wait` return its new diagnostics."""
        text = self._texts[self.uri(name)]
        for each in edits:
            start, end = map(Positions(text).offset, (each.range.start, each.range.end))
            text = text[:start] + each.new_text + text[end:]
        return self.replace(name, text, wait=wait)

    def replace(self, name: str, text: str, *, wait: bool = True) -> list[types.Diagnostic]:
        """Replace the text of a document, and with `wait` return the diagnostics of the new one."""
        uri = self.uri(name)
        self._versions[uri] += 1
        self._texts[uri] = text
        document = types.VersionedTextDocumentIdentifier(self._versions[uri], uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.tell(types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(document, [change]))
        return self.diagnostics(name) if wait else []

    def close(self, name: str) -> None:
        """Close a document."""
        params = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(self.uri(name)))
        self.tell(types.TEXT_DOCUMENT_DID_CLOSE, params)

    def diagnostics(self, name: str, version: int | None = None) -> list[types.Diagnostic]:
        """Return what is published for the current version of a document, as soon as it is."""
        uri = self.uri(name)
        wanted = version if version is not None else self._versions.get(uri)
        with self._news:
            found = self._news.wait_for(lambda: self._of_version(uri, wanted), PATIENCE)
        assert found, f"nothing was published for version {wanted} of {name}"
        return list(found[-1].diagnostics)

    def wait_for(
        self, name: str, wanted: Callable[[types.PublishDiagnosticsParams], bool]
    ) -> types.PublishDiagnosticsParams:
        """Return the last that is published for a document, as soon as it is what is wanted."""
        uri = self.uri(name)
        with self._news:
            fine = self._news.wait_for(
                lambda: bool(self._published.get(uri)) and wanted(self._published[uri][-1]), PATIENCE
            )
            assert fine, f"nothing of the kind was published for {name}: {self._published.get(uri)}"
            return self._published[uri][-1]

    def _of_version(self, uri: str, version: int | None) -> list[types.PublishDiagnosticsParams]:
        return [each for each in self._published.get(uri, []) if each.version == version]

    def at(
        self, name: str, text: str, mark: str, shift: int = 0
    ) -> tuple[types.TextDocumentIdentifier, types.Position]:
        """Return the document and the place of the only `mark` in its text, before which all is ASCII."""
        assert text.count(mark) == 1, mark
        offset = text.index(mark) + shift
        line = text.count("\n", 0, offset)
        column = offset - (text.rfind("\n", 0, offset) + 1)
        return types.TextDocumentIdentifier(self.uri(name)), types.Position(line, column)

    def stop(self) -> int | None:
        """End the server as the protocol wants it, and return the exit code of its process."""
        server = self.client._server
        self._await(self.client.shutdown_session())
        self._await(self.client.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        return None if server is None else server.returncode
