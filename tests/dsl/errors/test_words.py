"""The words of every message there is stand in golden files, to be read.

`tests/golden/words/MODULE.txt` has for each row and function of `dsl/errors/MODULE.py` the diagnostic with
all that it can be given, and the one with as little as possible. The name of a field in capitals is its
value. The diagnostics of real mistakes are in `tests/golden/errors/`.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mypy.api
import pytest

from compiler.compatibility import CONFLICTS
from dsl.codes import CODES
from dsl.diagnostics import Diagnostic
from dsl.errors.plan import conflict, not_met
from dsl.errors.wording import first_of
from dsl.formats.render import render
from dsl.ir import Condition
from tests.conftest import GOLDEN
from tests.dsl.errors.samples import factories, made, modules

ROOT = Path(__file__).parents[3]
PRODUCT = ("dsl", "grammar", "compiler", "tfdeploy")

GIVEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plan.conflict": ({"code": "TFD521"}, {"code": "TFD521"}),
    "notation.name_not_ascii": ({"name": "größe"}, {"name": "é"}),
    "notation.foreign_word": ({"word": "if"}, {"word": "if"}),
    "notation.called_twice": ({"rewritten": None}, {"rewritten": None}),
    "notation.unclosed": ({"opener": "{", "closer": "}"}, {"opener": "(", "closer": ")"}),
    "types.loss_expected": ({"kind": "loss"}, {"kind": "metric"}),
    "types.sizes_of_free_axes": ({"sizes": 2, "free": 1}, {"sizes": 1, "free": 0}),
    "types.pair_expected": ({"kind": "loss", "given": 4}, {"kind": "metric"}),
    "data.empty_share": (
        {"found": 1, "readers": ("READER 1", "READER 2", "READER 3"), "clones": True},
        {"found": 1, "readers": ("READER 1", "READER 2"), "clones": False},
    ),
    "types.brackets_around_flows": ({"kind": "loss"}, {"kind": "metric"}),
}
"""Arguments of which only some values are possible: with much and with little."""

CALLS = """\
from dsl.errors import data, files, names
from dsl.source import Source, Span

at = Span(Source("", ""), 0, 0)
files.too_large(at, path="a", largest=3)
files.too_large(at, path="a")
files.too_large(at, path="a", larges=3, largest=3)
files.too_large(at, path="a", largest="3")
names.second_model(at, first=None)
data.quoting(at, reason="a")
"""
COMPLAINTS = (
    'Missing named argument "largest" for "__call__" of "Wording" ',
    'Unexpected keyword argument "larges" for "__call__" of "Wording"; did you mean "largest"? ',
    'Argument "largest" to "__call__" of "Wording" has incompatible type "str"; expected "int" ',
    'Argument "first" to "__call__" of "Wording" has incompatible type "None"; expected "Span" ',
    'Argument 1 to "__call__" of "Fault" has incompatible type "Span"; expected "Where" ',
)
"""What mypy says of all calls but the first."""

REPORTED = re.compile(r"^(?:error|warning)\[(TFD\d+)\]", re.MULTILINE)


def words(diagnostic: Diagnostic) -> str:
    """Return what is shown of a diagnostic, without the count of errors below it."""
    return render([diagnostic]).rpartition("\n\n1 ")[0] + "\n"


@pytest.mark.parametrize("module", modules())
def test_every_message_reads_as_it_should(module: str, golden: Callable[[str, str], None]) -> None:
    """What each row and function says is what was read and found good; none is left out."""
    parts = []
    for name, factory in factories(module):
        much, little = GIVEN.get(f"{module.rpartition('.')[2]}.{name}", ({}, {}))
        said = [words(made(factory, given, full=full)) for given, full in ((much, True), (little, False))]
        parts += [f"=== {name}\n", said[0], *([f"--- {name}\n", said[1]] if said[1] != said[0] else [])]
    golden(f"words/{module.replace('.', '/')}.txt", "".join(parts))


def test_what_does_not_go_together_reads_as_it_should(golden: Callable[[str, str], None]) -> None:
    """The table of conflicts and that of conditions have the words of these messages."""
    parts = []
    for each in CONFLICTS:
        facts = {aspect: frozenset(values[:1]) for aspect, values in each.when}
        parts.append(words(conflict(each.code, each.title(facts), (each.reason,), each.nearest, None, None)))
    for function in ("imbalance", "memory", "traffic", "ops", "step_time", "busy"):
        condition = Condition(function, (), "<=", 1.0, f"{function}(...) <= 1")
        parts.append(words(not_met(condition, "FIGURE", ["CONTRIBUTION"])))
    golden("words/tables.txt", "\n".join(parts))


def test_every_code_has_its_words_in_a_golden_file() -> None:
    """No code is left whose message nothing holds, but that of faults of the tool, which can be any."""
    texts = [
        path.read_text(encoding="utf-8") for path in GOLDEN.rglob("*") if path.suffix in {".txt", ".err"}
    ]
    held = {code for text in texts for code in REPORTED.findall(text)}
    assert set(CODES) - held == {"TFD901"}


def test_every_message_is_used() -> None:
    """Each row and function is called by a check, or by another message."""
    files = [path for each in PRODUCT for path in (ROOT / each).rglob("*.py")]
    called = set(re.findall(r"\b(\w+)\(", "\n".join(path.read_text(encoding="utf-8") for path in files)))
    assert [name for module in modules() for name, _ in factories(module) if name not in called] == []


@pytest.mark.full
def test_mypy_knows_the_fields_of_rows(tmp_path: Path) -> None:
    """A field that is missing, misspelt or of another type is an error at the call; so is a wrong place."""
    program = tmp_path / "calls.py"
    program.write_text(CALLS, encoding="utf-8")
    limit = sys.getrecursionlimit()
    found, _, _ = mypy.api.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path), str(program)]
    )
    sys.setrecursionlimit(limit)  # mypy raises it, and tests of deep specs run in this process too
    wrong = {
        line.partition(": error: ")[2].partition(" [")[0] for line in found.splitlines() if "error: " in line
    }
    assert wrong == set(COMPLAINTS)


def test_the_first_of_many_notes_are_shown_with_the_number_of_the_others() -> None:
    """As many as may be shown are shown without a word about others."""
    assert first_of(["a", "b"], 2) == ("a", "b")
    assert first_of(["a", "b", "c", "d"], 2) == ("a", "b", "and 2 more")
