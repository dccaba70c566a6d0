"""Quick fixes, all safe fixes at once, and formatting: as edits of what the editor shows."""

from collections.abc import Sequence

import pytest
from lsprotocol import types

from dsl.diagnostics import SpecError
from tests.lsp.test_names import after
from tests.lsp.texts import SMALL, Opened
from tfdeploy.lsp.diagnostics import examine
from tfdeploy.lsp.features import edits
from tfdeploy.lsp.settings import FIX_ALL, Settings

WRONG = SMALL.replace("Dropout", "Droput")
QUOTED = SMALL.replace("mode = sync", "mode = 'sync'")  # of which the fix is safe
QUICK = types.CodeActionKind.QuickFix


def actions(
    text: str, start: int, end: int, only: Sequence[types.CodeActionKind | str] | None = None
) -> list[types.CodeAction]:
    """Return the actions for the places from an offset to another."""
    opened = Opened(text)
    document = opened.document
    found = examine(document, opened.documents.texts, Settings())
    range_ = document.positions.range(start, end)
    return edits.code_actions(found, document, range_, only, opened.documents, Settings())


def test_a_fix_is_offered_at_its_place() -> None:
    """Both ends of what is wrong belong to it, and nothing else does."""
    start, end = WRONG.index("Droput"), WRONG.index("Droput") + len("Droput")
    for first, last, offered in (
        (start, start, True),
        (end, end, True),
        (0, len(WRONG), True),
        (start - 1, start - 1, False),
        (end + 1, end + 1, False),
    ):
        found = [each for each in actions(WRONG, first, last, [QUICK]) if "Dropout" in each.title]
        assert bool(found) is offered, (first - start, last - start)
    (fix,) = actions(WRONG, start, end, [QUICK])
    assert fix.title[0].isupper()
    assert (fix.kind, fix.is_preferred) == (QUICK, True)
    assert [each.range for each in fix.diagnostics or ()] == [
        Opened(WRONG).document.positions.range(start, end)
    ]
    ((uri, changes),) = fix.edit.changes.items()
    assert uri == Opened(WRONG).document.uri
    assert after(WRONG, list(changes), Opened(WRONG)) == WRONG.replace("Droput", "Dropout")


def test_all_fixes_are_one_action() -> None:
    """It leaves a text without mistakes, and is not offered if there is no mistake whose fix is safe."""
    (action,) = actions(QUOTED, 0, 0, [FIX_ALL])
    assert action.kind == FIX_ALL
    (changes,) = action.edit.changes.values()
    assert after(QUOTED, list(changes), Opened(QUOTED)) == QUOTED.replace("'", '"')
    assert actions(SMALL, 0, len(SMALL)) == []
    assert actions(WRONG, 0, len(WRONG), [FIX_ALL]) == []


@pytest.mark.parametrize(
    ("only", "kinds"),
    [
        (None, {QUICK, FIX_ALL}),
        ([""], {QUICK, FIX_ALL}),
        ([QUICK], {QUICK}),
        (["source"], {FIX_ALL}),
        (["source.fixAll"], {FIX_ALL}),
        (["source.fixAll.other"], set()),
        (["quick"], set()),
        ([types.CodeActionKind.Refactor, QUICK], {QUICK}),
        ([], set()),
    ],
)
def test_only_what_is_asked_for_is_offered(
    only: list[types.CodeActionKind | str] | None, kinds: set[object]
) -> None:
    """A kind stands for those below it too."""
    assert {each.kind for each in actions(QUOTED, 0, len(QUOTED), only)} == kinds


UGLY = "tfdeploy=1\n\n\nlet {\n  a=1\n  b = 2\n  c=3\n}\n"
NEAT = "tfdeploy = 1\n\nlet {\n  a = 1\n  b = 2\n  c = 3\n}\n"


def test_formatting_changes_only_the_lines_that_need_it() -> None:
    """The edits are of whole lines, and give the text in the one style."""
    opened = Opened(UGLY)
    found = edits.formatting(opened.document)
    assert after(UGLY, found, opened) == NEAT
    assert "  b = 2\n" not in "".join(each.new_text for each in found)
    assert all(each.range.start.character == each.range.end.character == 0 for each in found)
    assert edits.formatting(Opened(NEAT).document) == []
    with pytest.raises(SpecError):
        edits.formatting(Opened("let {").document)


@pytest.mark.parametrize(
    ("start", "end", "changed"),
    [
        ((4, 2), (4, 5), ["  a = 1\n"]),
        ((5, 0), (5, 3), []),
        ((6, 0), (7, 0), ["  c = 3\n"]),
        ((5, 0), (6, 0), []),
        ((5, 0), (6, 1), ["  c = 3\n"]),
        ((6, 0), (6, 0), ["  c = 3\n"]),
        ((0, 0), (0, 0), ["tfdeploy = 1\n"]),
    ],
)
def test_formatting_of_some_lines(start: tuple[int, int], end: tuple[int, int], changed: list[str]) -> None:
    """A range that ends before the first character of a line does not have that line."""
    range_ = types.Range(types.Position(*start), types.Position(*end))
    found = edits.formatting(Opened(UGLY).document, range_)
    texts = [each.new_text for each in found]
    assert [each for each in changed if each not in texts] == []
    assert [each for each in ("  a = 1\n", "  c = 3\n") if each in texts and each not in changed] == []
