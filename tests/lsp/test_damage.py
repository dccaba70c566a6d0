"""Whatever a text looks like, each request has an answer, and its places are in the text."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from lsprotocol import types

from dsl.diagnostics import SpecError
from tests.folders import EXAMPLES
from tests.lsp.test_diagnostics import mutations
from tests.lsp.texts import Opened
from tfdeploy.lsp.diagnostics import by_file, examine
from tfdeploy.lsp.features import colors, completion, edits, hover, navigation
from tfdeploy.lsp.server import lenses
from tfdeploy.lsp.settings import Settings

SPECS = sorted(EXAMPLES.rglob("*.tfdeploy"))


def answers(opened: Opened, offset: int) -> Iterator[Any]:
    """Yield what every feature answers at a place."""
    document, documents, at = opened.document, opened.documents, opened.at(offset)
    found = examine(document, documents.texts, Settings())
    whole = document.positions.range(0, len(document.text))
    yield by_file(found, documents)[document.uri]
    yield edits.code_actions(found, document, whole, None, documents, Settings())
    yield completion.complete(at, snippets=True)
    yield hover.hover(at)
    yield hover.signature_help(at)
    yield navigation.definitions(at)
    yield navigation.references(at, with_definition=True)
    yield navigation.highlights(at)
    yield navigation.renamable(at)
    yield navigation.symbols(document)
    yield navigation.folds(document)
    yield navigation.selections(document, [offset])
    yield navigation.links(document)
    yield colors.hints(document, opened.trees, found.reading.spec, {}, whole)
    yield lenses(document)
    colors.semantic_tokens(document, opened.names)
    try:
        yield edits.formatting(document)
        yield [navigation.rename(at, "other")]
    except (SpecError, navigation.CannotRenameError):
        pass


def positions(answer: Any) -> Iterator[types.Position]:
    """Yield every position in an answer."""
    if isinstance(answer, types.Position):
        yield answer
    elif isinstance(answer, list | tuple):
        for each in answer:
            yield from positions(each)
    elif attrs.has(type(answer)):
        for field in attrs.fields(type(answer)):
            yield from positions(getattr(answer, field.name))


def answered(text: str, spec: Path, offset: int) -> None:
    """Ask everything about a place in a text."""
    opened = Opened(text, spec)
    lines = opened.document.text.split("\n")
    for answer in answers(opened, min(offset, len(opened.document.text))):
        for at in positions(answer):
            assert at.line < len(lines)
            assert at.character <= 2 * len(lines[at.line])


@pytest.mark.parametrize(
    ("spec", "count", "places"),
    [
        *(pytest.param(each, 2, 1, marks=pytest.mark.family(every=4), id=each.stem) for each in SPECS),
        *(pytest.param(each, 15, 3, marks=pytest.mark.full, id=f"{each.stem}-much") for each in SPECS[::3]),
    ],
)
def test_damaged_texts_are_answered(spec: Path, count: int, places: int) -> None:
    """Damaged texts of each example, at places near the damage."""
    chosen = random.Random(spec.name)  # noqa: S311 damage is no secret
    text = spec.read_text()
    for damaged in mutations(text, count, chosen.randrange(10**6)):
        for _ in range(places):
            answered(damaged, spec, chosen.randrange(len(damaged)))


@pytest.mark.parametrize(
    "text", ["", "\n", "#", '"', "{", "}", "((((", "a = ", "\ufeff", "model", "x\r\ny", "\0", "🙂" * 3]
)
def test_strange_texts_are_answered(text: str) -> None:
    """Texts of next to nothing, at every place."""
    for offset in range(len(text) + 1):
        answered(text, SPECS[0], offset)


def test_a_text_nested_beyond_measure_is_answered() -> None:
    """Brackets in brackets that no stack would hold."""
    answered("let { a = " + "[" * 5000, SPECS[0], 3000)
