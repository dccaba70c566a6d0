"""The formatter: one style, the same meaning, every comment, and the same again the second time."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grammar
from dsl.diagnostics import SpecError
from dsl.source import Source
from grammar import format as formatter
from grammar import lark_parser
from grammar.format import format_text
from tests.folders import ROOT
from tests.grammar.broken_specs import mutants

SPECS = [*(ROOT / "examples").glob("*.tfdeploy"), *(Path(__file__).parent / "specs").glob("*.tfdeploy")]
TEXTS = [path.read_text(encoding="utf-8") for path in SPECS]


def formatted(text: str) -> str:
    """Return `text` in the one style, after seeing that doing it again changes nothing."""
    once = format_text(Source("test.tfdeploy", text))
    assert format_text(Source("test.tfdeploy", once)) == once
    return once


@pytest.mark.parametrize(
    ("loose", "tidy"),
    [
        ("a=1", "a = 1\n"),
        ("\n\n\na = 1\n\n\n\nb = 2\n\n", "a = 1\n\nb = 2\n"),
        ("a  {\n\n\n b=1\n\n }\n", "a {\n  b = 1\n}\n"),
        ("a { }", "a {}\n"),
        ("a {\n}", "a {}\n"),
        ("a{b=1,c=2}", "a { b = 1, c = 2 }\n"),
        ("a { b = 1, }", "a { b = 1, }\n"),
        ("a { b = 1\nc = 2 }", "a {\n  b = 1\n  c = 2\n}\n"),
        ("a { b { c { d = 1 } } }", "a { b { c { d = 1 } } }\n"),
        ("a = b\n->c( )\n\n  -> d(1,2)\n", "a = b\n  -> c()\n  -> d(1, 2)\n"),
        ("a = f (x)->g [0] . h", "a = f(x) -> g[0].h\n"),
        ("a = gpu[ 0 .. 3 ]\nb = gpu[ * ]", "a = gpu[0..3]\nb = gpu[*]\n"),
        ("a = - 1 - - 2*( -3 + b )/ c", "a = -1 - -2 * (-3 + b) / c\n"),
        ("a = [-1,- b , 2-1]", "a = [-1, -b, 2 - 1]\n"),
        ("a = 16  GiB + 1_000", "a = 16  GiB + 1_000\n"),
        ("a(b)<=10%", "a(b) <= 10%\n"),
        ('model   "m"{}', 'model "m" {}\n'),
        ("a = f(\n1,\n\n\n2,\n)", "a = f(\n  1,\n  2,\n)\n"),
        ("a = f(1,\n2)", "a = f(1,\n    2)\n"),
        ("a = f\n-> g(\nx = 1,\n)", "a = f\n  -> g(\n    x = 1,\n  )\n"),
        ("a = [\n[1,2],\n[3,4]\n]", "a = [\n  [1, 2],\n  [3, 4]\n]\n"),
        ("a = f(x\n, y\n)", "a = f(x, y\n)\n"),
        (
            'model "m" {\na = f( x ) [ :,1 ]\nb=(a+c) [...,0 ]\n}',
            'model "m" {\n  a = f(x)[:, 1]\n  b = (a + c)[..., 0]\n}\n',
        ),
        ("a = (1 +\n2\n* 3)", "a = (1 +\n    2\n    * 3)\n"),
        ("# a\na = 1 #b\t\n   # c\n\n\n#d", "# a\na = 1  #b\n# c\n\n#d\n"),
        ("a { # b\n# c\n}", "a {  # b\n  # c\n}\n"),
        ("a = b # x\n# y\n\n -> c() # z\n", "a = b  # x\n  # y\n  -> c()  # z\n"),
        ("a = f(1, # one\n2 # two\n)", "a = f(1,  # one\n    2  # two\n)\n"),
        ("a = f(\n# none\n)", "a = f(\n  # none\n)\n"),
        ("a = 1\r\n\r\n\r\nb = 2\r\n", "a = 1\n\nb = 2\n"),
        ("", ""),
        ("\n \n", ""),
        ("# only", "# only\n"),
    ],
)
def test_style(loose: str, tidy: str) -> None:
    """Indentation, spaces, empty lines and comments come out in the one style."""
    assert formatted(loose) == tidy


def test_block_that_is_too_long_for_its_line_is_broken_up() -> None:
    """A block that does not fit its line is opened, outermost first, with a line for each item."""
    items = ", ".join(f"attribute_{number} = {number}" for number in range(4))
    assert formatted(f"outer {{ inner {{ {items} }} }}") == f"outer {{ inner {{ {items} }} }}\n"
    more = ", ".join(f"attribute_{number} = {number}" for number in range(5))
    lines = "".join(f"    attribute_{number} = {number},\n" for number in range(5))
    tall = f"outer {{\n  inner {{\n{lines}".removesuffix(",\n") + "\n  }\n}\n"
    assert formatted(f"outer {{ inner {{ {more} }} }}") == f"outer {{\n  inner {{ {more} }}\n}}\n"
    assert formatted(f"outer_block {{ inner_block_of_it {{ {more} }} }}") == tall.replace(
        "outer {", "outer_block {"
    ).replace("inner {", "inner_block_of_it {")


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_formatting_keeps_the_meaning_of_whole_specs(path: Path) -> None:
    """The examples, and the specs that use the whole language, mean the same after formatting."""
    text = formatted(path.read_text(encoding="utf-8"))
    before = grammar.read(path, allow_python=True).spec
    assert before is not None
    assert grammar.read(path, text=text, allow_python=True).spec == before


@pytest.mark.parametrize("name", ["digits", "cifar10"])
def test_examples_are_in_the_one_style(name: str) -> None:
    """The examples that ship are what `fmt` would write."""
    text = (ROOT / "examples" / f"{name}.tfdeploy").read_text(encoding="utf-8")
    assert formatted(text) == text


@pytest.mark.full
@settings(max_examples=15)
@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False))
def test_spaces_and_empty_lines_make_no_difference(text: str, chance: object) -> None:
    """However spaces, indentation and empty lines are changed, the result is the same."""
    tokens = lark_parser.parser().lex(text, dont_ignore=True)
    parts = [_shaken(token.type, str(token), chance) for token in tokens]
    assert formatted("".join(parts)) == formatted(text)


def _shaken(kind: str, text: str, chance: object) -> str:
    choose = chance.choice  # type: ignore[attr-defined]
    if kind == "WHITE":
        return choose([" ", "  ", "\t", " \t "])
    if kind == "NEWLINE":
        return choose(["\n", "  \n", "\n\t "])
    return text


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.full)])
def test_mutated_specs_are_formatted_or_refused(count: int) -> None:
    """A spec with one change is either refused, or formatted with the meaning that it had."""
    done = refused = 0
    for text in mutants(TEXTS, count, seed=11):
        try:
            once = formatted(text)
        except SpecError:
            refused += 1
            continue
        done += 1
        spec = grammar.read("test.tfdeploy", text=text, allow_python=True).spec
        assert grammar.read("test.tfdeploy", text=once, allow_python=True).spec == spec
    assert done > count // 5
    assert refused > count // 5


def test_result_that_would_mean_something_else_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the printer to lose or change a token, or a comment, formatting fails in place of returning it."""
    for broken in ("a = 1\n", "a = 2  # b\n", "a = 1  # c\n", "a = 1  # b\nb = 2\n"):
        monkeypatch.setattr(formatter._Printer, "text", lambda _, text=broken: text)
        with pytest.raises(AssertionError, match="more than white space"):
            format_text(Source("test.tfdeploy", "a=1 # b"))
    monkeypatch.setattr(formatter._Printer, "text", lambda _: "a = 1  # b\n")
    assert format_text(Source("test.tfdeploy", "a=1 # b")) == "a = 1  # b\n"


def test_text_with_a_syntax_error_is_refused() -> None:
    """What cannot be read is not formatted; the errors are those of `check`."""
    with pytest.raises(SpecError) as caught:
        format_text(Source("test.tfdeploy", "a = (1\nb = 2\n"))
    assert [each.code for each in caught.value.diagnostics] == ["TFD104"]
