"""The parser of the language: the tables that lark keeps, and the undocumented names of lark that we use."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import lark
import pytest
from lark.lexer import BasicLexer, Token
from lark.parse_tree_builder import ParseTreeBuilder
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_interactive_parser import InteractiveParser
from lark.parsers.lalr_parser_state import ParseConf, ParserState

from dsl.source import Source
from grammar import lark_parser
from grammar.lark_parser import RunningParser
from grammar.parsing.builder import Builder, Lost
from grammar.reports import Reports
from tests.folders import EXAMPLES


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield an empty folder that is the user's cache folder meanwhile; the shared parser is put aside."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lark_parser.parser.cache_clear()
    yield tmp_path
    lark_parser.parser.cache_clear()


def test_undocumented_names_of_lark_are_as_expected() -> None:
    """Every undocumented name of lark that `grammar/lark_parser.py` uses exists and does what it says."""
    running = lark_parser.parser().parse_interactive()
    assert isinstance(running, InteractiveParser)
    state = running.parser_state
    assert isinstance(state, ParserState)
    assert isinstance(state.parse_conf, ParseConf)
    assert len(state.state_stack) == len(state.value_stack) + 1 == 1
    assert state.parse_conf is not lark_parser.parser().parse_interactive().parser_state.parse_conf
    state.parse_conf.callbacks = ParseTreeBuilder(lark_parser.parser().rules, lark.Tree).create_callback(  # type: ignore[no-untyped-call] # lark has no types
        Builder(Source("", ""), Reports())
    )
    probe = ParserState(state.parse_conf, state.lexer, list(state.state_stack), [])
    name = Token("NAME", "a", 0, 1, 1, 1, 2, 1)
    probe.feed_token(name)
    assert (len(probe.state_stack), probe.value_stack) == (2, [name])
    assert len(state.state_stack) == 1
    (pattern,) = BasicLexer(lark_parser.parser().lexer_conf).scanner._mres
    assert pattern.fullmatch("word").lastgroup == "NAME"
    assert state.parse_conf.states[state.state_stack[0]]["NAME"][0] is Shift
    with pytest.raises(lark.UnexpectedToken):
        probe.feed_token(Token("RPAREN", ")", 1, 1, 2, 1, 3, 2))


SPECS = sorted(EXAMPLES.glob("*.tfdeploy"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_tokens_are_those_of_lark(path: Path) -> None:
    """Tokens, of strange characters too, are those of lark's own lexer in every field."""
    text = path.read_text(encoding="utf-8")
    for each in (text, text.replace(" = ", " := 'a\u2019ß\t").replace("->", "$\r\n")):
        for everything in (False, True):
            ours = lark_parser.lex(each, everything=everything)
            theirs = list(lark_parser.parser().lex(each, dont_ignore=everything))
            assert [_fields(token) for token in ours] == [_fields(token) for token in theirs]


def _fields(token: Token) -> tuple[object, ...]:
    places = (token.line, token.column, token.end_line, token.end_column, token.start_pos, token.end_pos)
    return (token.type, str(token), token.value, *places)


class _Rules:
    """Makes a list of the name and the values of each rule that has no underscore."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda children: [name, *children]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_rules_are_those_of_lark(path: Path) -> None:
    """A text is taken apart as lark's own parser does it, also after each token that is not allowed."""
    tokens = [token for token in lark_parser.lex(path.read_text(encoding="utf-8")) if token.type != "NEWLINE"]
    ours, theirs = RunningParser(_Rules()), RunningParser(_Rules())
    at = stops = 0
    while (at := ours.feed_all(tokens, at)) < len(tokens):
        stops += 1
        at += 1
    for token in tokens:
        try:
            theirs.feed(token)
        except lark.UnexpectedToken:
            stops -= 1
    assert stops == 0
    assert ours.accepted() == theirs.accepted()
    assert _plain(ours.values) == _plain(theirs.values)


def _plain(value: object) -> object:
    """Return a value without the names of rules that their parents take apart."""
    if isinstance(value, lark.Tree):
        return _plain(value.children)
    return [_plain(each) for each in value] if isinstance(value, list) else value


def test_running_parser_can_be_probed_and_cut() -> None:
    """Probing changes nothing; after a cut the parser goes on as if the rest had not been there."""
    parser = RunningParser(Builder(Source("", "a = (1"), Reports()))
    tokens = [
        Token(kind, text, at, 1, at + 1, 1, at + 2, at + 1)
        for at, (kind, text) in enumerate((("NAME", "a"), ("EQUALS", "="), ("LPAREN", "("), ("INTEGER", "1")))
    ]
    for token in tokens:
        parser.feed(token)
    end = Token("$END", "", 4, 1, 5, 1, 5, 4)
    before = list(parser.values)
    assert not parser.would_take([end])
    assert parser.would_take([Token("RPAREN", ")"), end])
    assert parser.would_take([Lost("BROKEN", "", 2, end_pos=4), end], keep=2)
    assert parser.values == before
    assert {"RPAREN", "PLUS"} <= parser.accepted()
    parser.cut(2)
    assert parser.values == tokens[:2]
    parser.feed(Lost("BROKEN", "", 2, end_pos=4))
    (item,) = parser.feed(end)
    assert item.name == "a"


def test_tables_are_kept_for_the_next_process(cache_home: Path) -> None:
    """The parser from the kept tables has the rules and terminals of the one made from the grammar."""
    made = lark_parser.parser()
    (kept,) = (cache_home / "tfdeploy").iterdir()
    assert stat.S_ISREG(kept.stat().st_mode)
    written = kept.stat().st_mtime_ns
    lark_parser.parser.cache_clear()
    loaded = lark_parser.parser()
    assert kept.stat().st_mtime_ns == written
    assert not hasattr(loaded, "grammar")  # which only a parser that was made from its grammar has
    assert set(loaded.rules) == set(made.rules)
    assert {each.name for each in loaded.terminals} == {each.name for each in made.terminals}
    assert {"UNKNOWN", "OPEN_STRING"} <= {each.name for each in loaded.terminals}


@pytest.mark.family(every=3)
@pytest.mark.parametrize("content", [b"", b"nonsense", "half"], ids=["empty", "nonsense", "half"])
def test_damaged_tables_are_made_again(
    cache_home: Path, content: bytes | str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever is in the file, the parser works, and nothing is said about it."""
    rules = set(lark_parser.parser().rules)
    (kept,) = (cache_home / "tfdeploy").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(content if isinstance(content, bytes) else whole[: len(whole) // 2])
    lark_parser.parser.cache_clear()
    assert set(lark_parser.parser().rules) == rules
    assert kept.read_bytes()[:64] == whole[:64]
    assert kept.stat().st_size > 0.9 * len(whole)
    assert capfd.readouterr() == ("", "")


def test_parser_needs_no_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_home: Path
) -> None:
    """Without a folder that can be written to, the parser is made from the grammar."""
    del cache_home
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert lark_parser.parser().rules
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208 the names alone
