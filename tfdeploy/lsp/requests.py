"""Which request of the protocol is answered by which function.

A fault in a request is answered as an error of that request.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from dsl.diagnostics import SpecError
from tfdeploy.lsp import features, offers
from tfdeploy.lsp.server import SpecServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfdeploy.lsp.documents.opened import Document
    from tfdeploy.lsp.reading.names import Use
    from tfdeploy.lsp.reading.placements import Placed
    from tfdeploy.lsp.settings import Settings


WATCHED = ("tfdeploy", "csv")
"""The endings of files whose content `check` reads; what becomes of them outside of the editor counts too."""


class RequestFailedError(JsonRpcException):
    """A request that cannot be answered, for a reason that is not a fault of the server."""

    CODE = -32803
    MESSAGE = "the request cannot be answered"


def create_server(settings: Settings) -> SpecServer:
    """Return a server with all its features.

    Args:
        settings: How specs are read.
    """
    server = SpecServer(settings)
    _add_documents(server)
    _add_edits(server)
    _add_words(server)
    _add_navigation(server)
    _add_structure(server)
    _add_hints(server)
    _add_commands(server)
    return server


def _add_documents(server: SpecServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(ls: SpecServer, params: types.DidOpenTextDocumentParams) -> None:
        given = params.text_document
        ls.opened(given.uri, given.version, given.text)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(ls: SpecServer, params: types.DidChangeTextDocumentParams) -> None:
        given = params.text_document
        ls.documents.change(given.uri, given.version, params.content_changes)
        ls.read_soon(given.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(ls: SpecServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.closed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(ls: SpecServer, params: types.DidSaveTextDocumentParams) -> None:
        del params
        for each in ls.documents:  # the file may be included by, or be the data of, others
            ls.read_soon(each.uri)

    @server.feature(types.INITIALIZED)
    async def initialized(ls: SpecServer, params: types.InitializedParams) -> None:
        del params
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

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def files_changed(ls: SpecServer, params: types.DidChangeWatchedFilesParams) -> None:
        del params
        for each in ls.documents:
            ls.read_soon(each.uri)


def _add_edits(server: SpecServer) -> None:
    kinds = [types.CodeActionKind.QuickFix, offers.FIX_ALL]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    async def code_action(ls: SpecServer, params: types.CodeActionParams) -> list[types.CodeAction]:
        found = await ls.read(params.text_document.uri)
        document = ls.documents.at(params.text_document.uri)
        return features.edits.code_actions(
            found, document, params.range, params.context.only, ls.documents, ls.settings
        )

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(ls: SpecServer, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        return _formatted(ls.documents.at(params.text_document.uri), None)

    @server.feature(types.TEXT_DOCUMENT_RANGE_FORMATTING)
    def range_formatting(ls: SpecServer, params: types.DocumentRangeFormattingParams) -> list[types.TextEdit]:
        return _formatted(ls.documents.at(params.text_document.uri), params.range)


def _formatted(document: Document, range_: types.Range | None) -> list[types.TextEdit]:
    try:
        return features.edits.formatting(document, range_)
    except SpecError as fault:
        first = fault.diagnostics[0].message
        raise RequestFailedError(f"a text with errors of syntax cannot be formatted: {first}") from fault


def _add_words(server: SpecServer) -> None:
    options = types.CompletionOptions(
        trigger_characters=list(offers.COMPLETION_TRIGGERS), resolve_provider=True
    )

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, options)
    def complete(ls: SpecServer, params: types.CompletionParams) -> types.CompletionList:
        document, trees, names = ls.names(params.text_document.uri, exact=False)
        offset = document.positions.offset(params.position)
        client = ls.client_capabilities.text_document
        item = client.completion.completion_item if client and client.completion else None
        snippets = bool(item and item.snippet_support)
        return features.completion.complete(
            document, trees, names, offset, snippets=snippets, variables=lambda: _variables(ls, document)
        )

    @server.feature(types.COMPLETION_ITEM_RESOLVE)
    def resolve(ls: SpecServer, item: types.CompletionItem) -> types.CompletionItem:
        trees = [tree for each in ls.documents for tree in ls.names(each.uri, exact=False)[1]]
        return features.completion.resolve(item, trees)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover_(ls: SpecServer, params: types.HoverParams) -> types.Hover | None:
        await ls.read(params.text_document.uri)
        document, trees, names = ls.names(params.text_document.uri)
        offset = document.positions.offset(params.position)
        return features.hover.hover(
            document, trees, names, offset, lambda use: _more(ls, use), _of_rule(ls, document, offset)
        )

    @server.feature(
        types.TEXT_DOCUMENT_SIGNATURE_HELP,
        types.SignatureHelpOptions(trigger_characters=list(offers.SIGNATURE_TRIGGERS)),
    )
    def signature_help(ls: SpecServer, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        document, trees, _ = ls.names(params.text_document.uri, exact=False)
        return features.hover.signature_help(document, trees, document.positions.offset(params.position))


def _more(ls: SpecServer, use: Use) -> Sequence[str]:
    """Return what is known of a name beside its definition: the shape of a tensor."""
    uri = ls.documents.of_source(use.span.source).uri
    from tfdeploy.lsp.reading import shapes

    spec = ls.findings(uri).reading.spec if use.symbol.kind in {"binding", "input"} else None
    shape = None if spec is None else shapes.shapes_of(spec).get(use.symbol.name)
    return () if shape is None else (f"Shape without the batch: `{shapes.written(shape)}`.",)


def _of_rule(ls: SpecServer, document: Document, offset: int) -> Sequence[str]:
    """Return what a saved map says of the rule in the line of a place."""
    line = document.source.position(offset).line
    known = _placed(ls, document).get(line)
    return () if known is None else known.sentences


def _placed(ls: SpecServer, document: Document) -> Mapping[int, Placed]:
    from tfdeploy.lsp.reading import (
        placements,  # whose records take long to import, and few requests need them
    )

    spec = ls.findings(document.uri).reading.spec
    return {} if spec is None else placements.placed_by_rules(document, spec, _folders(ls))


def _folders(ls: SpecServer) -> list[Path]:
    """Return the folders in which runs may have been started."""
    return [Path.cwd(), *(Path(each) for each in (ls.workspace.root_path,) if each)]


def _variables(ls: SpecServer, document: Document) -> tuple[str, ...]:
    """Return the names of variables in the map of the last run of a spec, whatever its text is now."""
    from tfdeploy.lsp.reading import placements

    spec = ls.last_spec(document.uri)
    return () if spec is None else placements.variables_of(document, spec, _folders(ls))


def _add_navigation(server: SpecServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    async def definition(ls: SpecServer, params: types.DefinitionParams) -> list[types.Location]:
        await ls.settled(params.text_document.uri)
        document, _, names = ls.names(params.text_document.uri)
        offset = document.positions.offset(params.position)
        return features.navigation.definitions(document, names, offset, ls.documents)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    async def references(ls: SpecServer, params: types.ReferenceParams) -> list[types.Location]:
        await ls.settled(params.text_document.uri)
        document, _, names = ls.names(params.text_document.uri)
        offset = document.positions.offset(params.position)
        with_definition = params.context.include_declaration
        return features.navigation.references(
            document, names, offset, ls.documents, with_definition=with_definition
        )

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    async def highlight(
        ls: SpecServer, params: types.DocumentHighlightParams
    ) -> list[types.DocumentHighlight]:
        await ls.settled(params.text_document.uri)
        document, _, names = ls.names(params.text_document.uri)
        return features.navigation.highlights(document, names, document.positions.offset(params.position))

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    async def prepare_rename(ls: SpecServer, params: types.PrepareRenameParams) -> types.Range | None:
        await ls.settled(params.text_document.uri)
        document, _, names = ls.names(params.text_document.uri)
        return features.navigation.renamable(document, names, document.positions.offset(params.position))

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    async def rename(ls: SpecServer, params: types.RenameParams) -> types.WorkspaceEdit:
        await ls.settled(params.text_document.uri)
        document, trees, names = ls.names(params.text_document.uri)
        offset = document.positions.offset(params.position)
        try:
            return features.navigation.rename(document, trees, names, offset, params.new_name, ls.documents)
        except features.navigation.CannotRenameError as fault:
            raise RequestFailedError(str(fault)) from fault


def _add_structure(server: SpecServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def document_symbol(
        ls: SpecServer, params: types.DocumentSymbolParams
    ) -> list[types.DocumentSymbol]:
        return features.outline.symbols(await ls.settled(params.text_document.uri))

    @server.feature(types.WORKSPACE_SYMBOL)
    async def workspace_symbol(
        ls: SpecServer, params: types.WorkspaceSymbolParams
    ) -> list[types.WorkspaceSymbol]:
        return await ls.symbols(params.query)

    @server.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
    async def folding_range(ls: SpecServer, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        return features.outline.folds(await ls.settled(params.text_document.uri))

    @server.feature(types.TEXT_DOCUMENT_SELECTION_RANGE)
    async def selection_range(
        ls: SpecServer, params: types.SelectionRangeParams
    ) -> list[types.SelectionRange]:
        document = await ls.settled(params.text_document.uri)
        return features.outline.selections(
            document, [document.positions.offset(each) for each in params.positions]
        )

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_LINK)
    async def document_link(ls: SpecServer, params: types.DocumentLinkParams) -> list[types.DocumentLink]:
        return features.outline.links(await ls.settled(params.text_document.uri))

    legend = types.SemanticTokensLegend(list(offers.TOKEN_TYPES), list(offers.TOKEN_MODIFIERS))

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)
    async def semantic_tokens(ls: SpecServer, params: types.SemanticTokensParams) -> types.SemanticTokens:
        await ls.settled(params.text_document.uri)
        document, _, names = ls.names(params.text_document.uri)
        return features.colors.semantic_tokens(document, names)

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, legend)
    async def semantic_tokens_range(
        ls: SpecServer, params: types.SemanticTokensRangeParams
    ) -> types.SemanticTokens:
        await ls.settled(params.text_document.uri)
        document, _, names = ls.names(params.text_document.uri)
        return features.colors.semantic_tokens(document, names, params.range)


def _add_hints(server: SpecServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay_hint(ls: SpecServer, params: types.InlayHintParams) -> list[types.InlayHint]:
        spec = (await ls.read(params.text_document.uri)).reading.spec
        document, trees, _ = ls.names(params.text_document.uri)
        return features.hints.hints(document, trees, spec, _placed(ls, document), params.range)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    async def code_lens(ls: SpecServer, params: types.CodeLensParams) -> list[types.CodeLens]:
        return features.commands.lenses(await ls.settled(params.text_document.uri))


def _add_commands(server: SpecServer) -> None:
    def add(name: str) -> Callable[..., object]:
        @server.command(name)
        async def run(ls: SpecServer, uri: str) -> dict[str, object]:
            def tell(line: str) -> None:
                ls.window_log_message(types.LogMessageParams(types.MessageType.Info, line))

            options = tuple(f"--set={path}={value}" for path, value in ls.settings.overrides)
            options += ("--allow-python",) if ls.settings.allow_python else ()
            try:
                done = await ls.runner.run(name, ls.documents.at(uri), options, tell)
            except features.commands.NotSavedError as fault:
                raise RequestFailedError(str(fault)) from fault
            kind = types.MessageType.Error if done["code"] else types.MessageType.Info
            end = "failed" if done["code"] else "done"
            said = f"{offers.COMMANDS[name][0]}: {end}; the log has its output"
            ls.window_show_message(types.ShowMessageParams(kind, said))
            return done

        return run

    for each in offers.COMMANDS:
        add(each)

    @server.feature(types.SHUTDOWN)
    def shutdown(ls: SpecServer, params: None) -> None:
        del params
        ls.runner.stop()
