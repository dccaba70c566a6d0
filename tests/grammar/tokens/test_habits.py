"""What people write who know other languages: told once, and mended by `check --fix` where that is safe."""

from collections.abc import Iterable
from pathlib import Path

import pytest

import grammar
from dsl.diagnostics import Diagnostic
from tests.folders import ROOT
from tfdeploy.cli.commands.texts import apply_safe

ERRORS = ROOT / "tests" / "golden" / "errors"
MENDED = (
    "comments-with-slashes",
    "comment-of-several-lines",
    "comment-with-stars",
    "fat-arrow",
    "long-arrow",
    "quoted-names",
    "quoted-block",
    "colon-before-a-block",
    "layer-called-on-a-tensor",
    "doubled-name",
    "doubled-arrow",
)
ROUNDS = 4


def errors(found: Iterable[Diagnostic]) -> list[str]:
    """Return the codes of the errors in `found`."""
    return [each.code for each in found if each.is_error]


def test_safe_fixes_make_nothing_worse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The safe fixes of any wrong spec take away as many diagnostics as they were promised to mend."""
    monkeypatch.chdir(tmp_path)
    for path in sorted(ERRORS.glob("*/*.tfdeploy")):
        Path(path.name).write_bytes(path.read_bytes())
        before = grammar.read(path.name, []).diagnostics
        promised = sum(each.fix is not None and each.fix.applicability == "safe" for each in before)
        if promised:
            apply_safe(before)
            after = grammar.read(path.name, []).diagnostics
            assert len(after) <= len(before) - promised, path.name


@pytest.mark.parametrize("name", MENDED)
def test_habit_is_mended_whole(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spec whose only faults are habits of another language is right after its fixes."""
    monkeypatch.chdir(tmp_path)
    path = Path("spec.tfdeploy")
    path.write_bytes(next(ERRORS.glob(f"*/{name}.tfdeploy")).read_bytes())
    assert errors(grammar.read(str(path), []).diagnostics)
    for _ in range(ROUNDS):
        apply_safe(grammar.read(str(path), []).diagnostics)
    assert errors(grammar.read(str(path), []).diagnostics) == []


def test_comment_keeps_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment of several lines has a `#` on each line afterwards, and what it says."""
    monkeypatch.chdir(tmp_path)
    path = Path("spec.tfdeploy")
    path.write_text('tfdeploy = 1\n/*\n * It is "odd {\n * as can be\n */\nclones { count = 2 /* two */ }\n')
    apply_safe(grammar.read(str(path), []).diagnostics)
    assert path.read_text() == (
        'tfdeploy = 1\n/*\n * It is "odd {\n * as can be\n */\nclones { count = 2 /* two */ }\n'
    )
    path.write_text(
        'tfdeploy = 1\n  /*\n   * It is "odd {\n   * as can be\n   */\nclones { count = 2 } // two\n'
    )
    apply_safe(grammar.read(str(path), []).diagnostics)
    assert path.read_text() == ('tfdeploy = 1\n  # It is "odd {\n  # as can be\nclones { count = 2 } # two\n')


def test_address_in_a_string_is_no_comment() -> None:
    """Two slashes within a string, or within a comment, start none."""
    text = 'tfdeploy = 1\n# see http://example.org/*\nmodel "m" {\n  x = input(float32, [2]) # a // b\n}\n'
    found = grammar.read("a.tfdeploy", [], text=text + 'train { directory = "a//b/*" }\n').diagnostics
    assert not any("comment" in each.message for each in found)


def test_arrow_before_a_number_compares() -> None:
    """`=>` between a measure and a number is meant to be `>=`."""
    found = grammar.read("a.tfdeploy", [], text="expect { memory(gpu[0]) => 2 GB }\n").diagnostics
    assert [each.text for each in found if each.code == "TFD102"] == ["expected `>=`"]


def test_many_foreign_comments_are_read_in_one_pass() -> None:
    """Openers without an end, of which there are thousands, are told once."""
    found = grammar.read("a.tfdeploy", [], text="/*\n" * 20_000 + "tfdeploy = 1\n").diagnostics
    told = [each for each in found if each.code == "TFD102"]
    assert [(each.message, each.notes) for each in told] == [
        ("`/*` starts no comment here", ("and in 19995 more places",))
    ]
