"""The server: the open documents, when they are read, and commands of `tfdeploy` that it runs for them.

A text is read as a whole in another thread, one after the other, as soon as nobody has changed it for a
moment. What changes while it is being read is read when that is done, and of many changes only the last; so
an answer never waits for more than the reading that is under way and its own.

An editor waits for the first answer, to `initialize`, so what reads specs is imported after it.
"""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING

from attrs import define, field
from lsprotocol import types
from pygls.lsp.server import LanguageServer

from dsl import syntax
from dsl.files.regular import read_text
from tfdeploy.lsp.documents import Documents, path_of
from tfdeploy.lsp.settings import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from dsl import ir
    from tfdeploy.lsp.diagnostics import Findings
    from tfdeploy.lsp.documents import Document
    from tfdeploy.lsp.settings import Settings


GRACE = 5.0  # seconds that a command has for its end
LONGEST = 200_000
"""How many characters of the output of a command its result has at most; the last ones are kept."""


class NotSavedError(ValueError):
    """Raised if the file of a document is not what the editor shows."""


def lenses(document: Document) -> list[types.CodeLens]:
    """Return the commands for a spec, above its model; nothing for a text that has none."""
    return [
        types.CodeLens(
            document.positions.span(model.header), types.Command(title, name, arguments=[document.uri])
        )
        for model in syntax.blocks_in(document.tree.items, "model")[:1]
        for name, (title, _) in COMMANDS.items()
    ]


@define
class Runner:
    """Runs commands, and ends those that still run when the server ends."""

    _running: set[asyncio.subprocess.Process] = field(factory=set)

    async def run(
        self, name: str, document: Document, options: tuple[str, ...], tell: Callable[[str], None]
    ) -> dict[str, object]:
        """Run a command on a document.

        Returns:
            The exit code, as `code`, and the `output`.

        Raises:
            NotSavedError: If the document has changes that are not in its file.
        """
        _check_saved(document)
        words = (*COMMANDS[name][1], document.path, "--color=never", *options)
        from tfdeploy.runtime.launch.task_processes import follower, lifeline

        with lifeline() as pipe:
            process = await asyncio.create_subprocess_exec(
                *follower(pipe, words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=(pipe,),
            )
            self._running.add(process)
            output = ""
            try:
                assert process.stdout is not None
                while line := await process.stdout.readline():
                    text = line.decode("utf-8", "replace")
                    tell(text.rstrip("\n"))
                    output = (output + text)[-LONGEST:]
                return {"code": await process.wait(), "output": output}
            finally:
                await _end(process)
                self._running.discard(process)

    async def stop(self) -> None:
        """End the commands that still run; a training run writes a checkpoint first."""
        await asyncio.gather(*map(_end, self._running))


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process that still runs, and wait a while for its end."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)


def _check_saved(document: Document) -> None:
    try:
        saved = read_text(document.path).removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise NotSavedError(f"{document.path} has to be saved first") from error
    if saved.replace("\r\n", "\n") != document.text.removeprefix("\ufeff").replace("\r\n", "\n"):
        raise NotSavedError(f"{document.path} has changes that are not saved")


PAUSE = 0.02
"""Seconds without a change before a text is read; completion that comes with a change is answered then."""

NEW_BEFORE_LOOKING = 500_000
"""How many new objects Python makes before it looks for garbage among them: more than one reading of a long
text makes. With Python's own 700 it looks through the syntax tree again and again while it is made."""


@define
class _State:
    """What is known of an open document beside its text."""

    findings: Findings | None = None  # what the last reading gave, or None if there was none
    spec: ir.Spec | None = None  # the last spec without errors that it was
    task: asyncio.Task[None] | None = None
    again: bool = False  # whether it has changed since the reading that is under way has begun


class SpecServer(LanguageServer):
    """The language server for specs."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            "tfdeploy",
            version("tfdeploy"),
            types.TextDocumentSyncKind.Full,
            max_workers=2,
        )
        self.settings = settings
        self.documents = Documents()
        self.runner = Runner()
        self._states: dict[str, _State] = {}
        self._reader = ThreadPoolExecutor(1, "reader")
        self._preparing: Future[None] | None = None
        self._shown: dict[str, dict[str, list[types.Diagnostic]]] = {}

    def prepare(self) -> Future[None]:
        """Import the reader in its thread, so that it is there when a document is opened."""
        if self._preparing is None:
            self._preparing = self._reader.submit(_prepare)
        return self._preparing

    # --- documents

    def opened(self, uri: str, version: int, text: str) -> None:
        """Add a document and read it."""
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
        state.again = True
        if state.task is None or state.task.done():
            state.task = asyncio.get_running_loop().create_task(self._read_all(uri, state))

    async def _read_all(self, uri: str, state: _State) -> None:
        """Read a document until what was read is its current version."""
        while state.again:
            while state.again:
                state.again = False
                await asyncio.sleep(PAUSE)
            await self._read(uri, state)

    async def _read(self, uri: str, state: _State) -> None:
        from tfdeploy.lsp import diagnostics

        loop = asyncio.get_running_loop()
        document = self.documents.spec_with(self.documents.at(uri))
        try:
            found = await loop.run_in_executor(
                self._reader, diagnostics.examine, document, self.documents.texts, self.settings
            )
            self.documents.note_includes(document, found.paths)
            if not state.again:
                self._show(uri, diagnostics.by_file(found, self.documents))
            await loop.run_in_executor(self._reader, getattr, found, "names")  # which completion needs next
        except Exception as fault:  # noqa: BLE001 a fault in one text must not end the server
            message = f"{document.path} could not be read because of a fault of tfdeploy: {fault!r}"
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))
            return
        document.note_tree(found.reading.trees)
        state.findings = found
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

    def latest(self, uri: str) -> Findings:
        """Return what the last reading of a document gave, or of the spec that has it, whatever it is now."""
        return self._state(uri).findings or self.findings(uri)

    def findings(self, uri: str) -> Findings:
        """Return what reading the current version of a document, or of the spec that has it, gives."""
        from tfdeploy.lsp.diagnostics import examine

        state, texts = self._state(uri), self.documents.texts
        if state.findings is None or not state.findings.is_of(texts):
            root = self.documents.spec_with(self.documents.at(uri))
            state.findings = examine(root, texts, self.settings)
        return state.findings

    async def settled(self, uri: str) -> None:
        """Wait until the reading of a document that is under way is done, while others are answered."""
        task = self._state(uri).task
        if task is not None and not task.done():
            await asyncio.wait([task])

    def _state(self, uri: str) -> _State:
        """Return what is known of the spec that has a document; of the document if that spec is not open."""
        root = self.documents.spec_with(self.documents.at(uri)).uri
        return self._states[root if root in self._states else uri]

    async def symbols(self, query: str) -> list[types.WorkspaceSymbol]:
        """Return the symbols of all specs of the workspace whose names contain some letters.

        Files are read in the thread that reads documents, so that other requests are answered meanwhile.
        """
        from tfdeploy.lsp.features.navigation import matching

        workspace = self.workspace
        roots = [each.uri for each in workspace.folders.values()] or [workspace.root_uri or ""]
        folders = [path_of(each) for each in roots if each]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reader, matching, query, tuple(self.documents), folders)

    def last_spec(self, uri: str) -> ir.Spec | None:
        """Return the last spec without errors that a document was, or None if there was none yet."""
        return self._states[uri].spec


def _prepare() -> None:
    """Import what reads specs, and begin to look for garbage, which the command has put off until now.

    All that is there afterwards stays for good, so that Python looks for garbage in it only once.
    """
    gc.disable()
    try:
        from grammar import lark_parser
        from tfdeploy.lsp import diagnostics  # noqa: F401 it imports all that reads specs

        lark_parser.parser()
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(NEW_BEFORE_LOOKING)
