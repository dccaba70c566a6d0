"""Which request of the protocol is answered by which function.

A fault in a request is answered as an error of that request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import frozen
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from dsl.diagnostics import SpecError
from tfdeploy.lsp import features
from tfdeploy.lsp.server import NotSavedError, SpecServer, lenses
from tfdeploy.lsp.settings import (
    COMMANDS,
    COMPLETION_TRIGGERS,
    FIX_ALL,
    SIGNATURE_TRIGGERS,
    TOKEN_MODIFIERS,
    TOKEN_TYPES,
)

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.lsp.diagnostics import Findings
    from tfdeploy.lsp.documents import Document, Documents
    from tfdeploy.lsp.known import Placed
    from tfdeploy.lsp.names import Place, Use
    from tfdeploy.lsp.settings import Settings


WATCHED = ("tfdeploy", "csv")
"""The endings of files whose content `check` reads; what becomes of them outside of the editor counts too."""


class RequestFailedError(JsonRpcException):
    """A request that cannot be answered, for a reason that is not a fault of the server."""

    CODE = -32803
    MESSAGE = "the request cannot be answered"


@frozen
class Asked:
    """A request about a document, and what is known of the document."""

    server: SpecServer
    params: Any
    latest: bool = False  # whether the last reading will do, even if it was of an earlier text

    @property
    def documents(self) -> Documents:
        """The open documents."""
        return self.server.documents

    @property
    def document(self) -> Document:
        """The document."""
        return self.documents.at(self.params.text_document.uri)

    @property
    def findings(self) -> Findings:
        """What reading the document, or the spec that has it, gave."""
        read = self.server.latest if self.latest else self.server.findings
        return read(self.params.text_document.uri)

    @property
    def place(self) -> Place:
        """The place that is asked about, with what is known of the spec."""
        from tfdeploy.lsp.names import Place

        document, found = self.document, self.findings
        offset = document.positions.offset(self.params.position)
        return Place(document, offset, self.documents, found.reading.trees, found.names)

    @property
    def spec(self) -> ir.Spec | None:
        """The spec, or None if it has errors."""
        return self.findings.reading.spec

    @property
    def placed(self) -> Mapping[int, Placed]:
        """What a saved map says of the rules of the document, by their lines."""
        from tfdeploy.lsp import known  # whose records take long to import, and few need them

        spec = self.spec
        return {} if spec is None else known.placed_by_rules(self.document, spec, self._folders)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of variables in the map of the last run of the spec, whatever its text is now."""
        from tfdeploy.lsp import known

        spec = self.server.last_spec(self.document.uri)
        return () if spec is None else known.variables_of(self.document, spec, self._folders)

    @property
    def _folders(self) -> list[Path]:
        """The folders in which runs may have been started."""
        return [Path.cwd(), *(Path(each) for each in (self.server.workspace.root_path,) if each)]


# --- edits


def _code_actions(at: Asked) -> list[types.CodeAction]:
    only, settings = at.params.context.only, at.server.settings
    return features.edits.code_actions(
        at.findings, at.document, at.params.range, only, at.documents, settings
    )


def _formatted(at: Asked) -> list[types.TextEdit]:
    try:
        return features.edits.formatting(at.document, getattr(at.params, "range", None))
    except SpecError as fault:
        first = fault.diagnostics[0].message
        raise RequestFailedError(f"a text with errors of syntax cannot be formatted: {first}") from fault


def _renamed(at: Asked) -> types.WorkspaceEdit:
    try:
        return features.navigation.rename(at.place, at.params.new_name)
    except features.navigation.CannotRenameError as fault:
        raise RequestFailedError(str(fault)) from fault


# --- words


def _completed(at: Asked) -> types.CompletionList:
    client = at.server.client_capabilities.text_document
    item = client.completion.completion_item if client and client.completion else None
    snippets = bool(item and item.snippet_support)
    return features.completion.complete(at.place, snippets=snippets, variables=lambda: at.variables)


def _hovered(at: Asked) -> types.Hover | None:
    place = at.place
    rule = at.placed.get(place.document.source.position(place.offset).line)
    return features.hover.hover(place, partial(_shape, at), () if rule is None else rule.sentences)


def _shape(at: Asked, use: Use) -> Sequence[str]:
    """Return what is known of a name beside its definition: the shape of a tensor."""
    from tfdeploy.lsp import known

    spec = at.spec if use.symbol.kind in {"binding", "input"} else None
    shape = None if spec is None else known.shapes_of(spec).get(use.symbol.name)
    return () if shape is None else (f"Shape without the batch: `{known.written(shape)}`.",)


Answer: TypeAlias = Callable[[Asked], Any]

AT_ONCE: dict[str, Answer] = {
    types.TEXT_DOCUMENT_COMPLETION: _completed,
    types.TEXT_DOCUMENT_SIGNATURE_HELP: lambda at: features.hover.signature_help(at.place),
    types.TEXT_DOCUMENT_FORMATTING: _formatted,
    types.TEXT_DOCUMENT_RANGE_FORMATTING: _formatted,
}
"""What is answered without waiting for a reading of the text: what is asked for while it is being typed."""

AFTER_READING: dict[str, Answer] = {
    types.TEXT_DOCUMENT_CODE_ACTION: _code_actions,
    types.TEXT_DOCUMENT_HOVER: _hovered,
    types.TEXT_DOCUMENT_DEFINITION: lambda at: features.navigation.definitions(at.place),
    types.TEXT_DOCUMENT_REFERENCES: lambda at: features.navigation.references(
        at.place, with_definition=at.params.context.include_declaration
    ),
    types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: lambda at: features.navigation.highlights(at.place),
    types.TEXT_DOCUMENT_PREPARE_RENAME: lambda at: features.navigation.renamable(at.place),
    types.TEXT_DOCUMENT_RENAME: _renamed,
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: lambda at: features.navigation.symbols(at.document),
    types.TEXT_DOCUMENT_FOLDING_RANGE: lambda at: features.navigation.folds(at.document),
    types.TEXT_DOCUMENT_SELECTION_RANGE: lambda at: features.navigation.selections(
        at.document, [at.document.positions.offset(each) for each in at.params.positions]
    ),
    types.TEXT_DOCUMENT_DOCUMENT_LINK: lambda at: features.navigation.links(at.document),
    types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: lambda at: features.colors.semantic_tokens(
        at.document, at.findings.names
    ),
    types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE: lambda at: features.colors.semantic_tokens(
        at.document, at.findings.names, at.params.range
    ),
    types.TEXT_DOCUMENT_INLAY_HINT: lambda at: features.colors.hints(
        at.document, at.findings.reading.trees, at.spec, at.placed, at.params.range
    ),
    types.TEXT_DOCUMENT_CODE_LENS: lambda at: lenses(at.document),
}
"""What is answered when the reading that is under way is done."""

_LEGEND = types.SemanticTokensLegend(list(TOKEN_TYPES), list(TOKEN_MODIFIERS))

OPTIONS: dict[str, Any] = {
    types.TEXT_DOCUMENT_COMPLETION: types.CompletionOptions(
        trigger_characters=list(COMPLETION_TRIGGERS), resolve_provider=True
    ),
    types.TEXT_DOCUMENT_SIGNATURE_HELP: types.SignatureHelpOptions(
        trigger_characters=list(SIGNATURE_TRIGGERS)
    ),
    types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions(
        code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL]
    ),
    types.TEXT_DOCUMENT_RENAME: types.RenameOptions(prepare_provider=True),
    types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: _LEGEND,
    types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE: _LEGEND,
}
"""What the server says of requests when it starts."""


def create_server(settings: Settings) -> SpecServer:
    """Return a server with all its features."""
    server = SpecServer(settings)
    _add_notifications(server)
    for method, answer in AT_ONCE.items():
        server.feature(method, OPTIONS.get(method))(partial(_at_once, server, answer))
    for method, answer in AFTER_READING.items():
        server.feature(method, OPTIONS.get(method))(partial(_after_reading, server, answer))
    for name in COMMANDS:
        server.command(name)(_command(server, name))

    @server.feature(types.COMPLETION_ITEM_RESOLVE)
    def resolve(ls: SpecServer, item: types.CompletionItem) -> types.CompletionItem:
        trees = [tree for each in ls.documents for tree in ls.latest(each.uri).reading.trees]
        return features.completion.resolve(item, trees)

    @server.feature(types.WORKSPACE_SYMBOL)
    async def symbols(ls: SpecServer, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        return await ls.symbols(params.query)

    return server


def _at_once(server: SpecServer, answer: Answer, params: Any) -> Any:
    return answer(Asked(server, params, latest=True))


async def _after_reading(server: SpecServer, answer: Answer, params: Any) -> Any:
    await server.settled(params.text_document.uri)
    return answer(Asked(server, params))


def _command(ls: SpecServer, name: str) -> Callable[[str], Awaitable[dict[str, object]]]:
    """Return what runs a command on a document and says how it has ended."""

    async def run(uri: str) -> dict[str, object]:
        def tell(line: str) -> None:
            ls.window_log_message(types.LogMessageParams(types.MessageType.Info, line))

        options = tuple(f"--set={path}={value}" for path, value in ls.settings.overrides)
        options += ("--allow-python",) if ls.settings.allow_python else ()
        try:
            done = await ls.runner.run(name, ls.documents.at(uri), options, tell)
        except NotSavedError as fault:
            raise RequestFailedError(str(fault)) from fault
        kind = types.MessageType.Error if done["code"] else types.MessageType.Info
        end = "failed" if done["code"] else "done"
        said = f"{COMMANDS[name][0]}: {end}; the log has its output"
        ls.window_show_message(types.ShowMessageParams(kind, said))
        return done

    return run


def _add_notifications(server: SpecServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(ls: SpecServer, params: types.DidOpenTextDocumentParams) -> None:
        given = params.text_document
        ls.opened(given.uri, given.version, given.text)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(ls: SpecServer, params: types.DidChangeTextDocumentParams) -> None:
        given = params.text_document
        ls.documents.change(given.uri, given.version, params.content_changes[-1].text)  # the whole of it
        ls.read_soon(given.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(ls: SpecServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.closed(params.text_document.uri)

    @server.feature(types.INITIALIZED)
    async def initialized(ls: SpecServer, _: types.InitializedParams) -> None:
        ls.prepare()
        workspace = ls.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace else None
        if watching and watching.dynamic_registration:
            options = types.DidChangeWatchedFilesRegistrationOptions(
                [types.FileSystemWatcher(f"**/*.{ending}") for ending in WATCHED]
            )
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = types.Registration("files", method, options)
            ls.client_register_capability(types.RegistrationParams([registration]))

    async def files_changed(ls: SpecServer, _: object) -> None:
        for each in ls.documents:  # the file may be included by, or be the data of, others
            ls.read_soon(each.uri)

    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(files_changed)
    server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(files_changed)

    @server.feature(types.SHUTDOWN)
    async def shutdown(ls: SpecServer, _: None) -> None:
        await ls.runner.stop()
