"""`make mutants` tries a sample of faults in parts, each fault once, and adds up what became of them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from attrs import asdict

from tools.mutation import __main__ as mutation
from tools.mutation import covering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tools.mutation.mutants import Mutant


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[list[str], list[str]]]:
    """Return a function that runs the command for ten faults of one file, every second of which is seen.

    It returns the faults that were tried, as digests, and the lines that were printed. No test is run.
    """
    verdicts = tmp_path / "verdicts.jsonl"
    monkeypatch.setattr(mutation, "FOLDER", tmp_path)
    monkeypatch.setattr(mutation, "VERDICTS", verdicts)
    monkeypatch.setattr(mutation.covering, "is_known", lambda *_: True)
    tried: list[str] = []

    def attempts(mutants: Sequence[Mutant], jobs: int) -> list[mutation.Verdict]:
        del jobs
        found = []
        for each in mutants:
            digest = mutation._digest(each)
            word = "missed" if len(tried) % 2 else "seen"
            found.append(mutation.Verdict(digest, each.path, each.line, each.was, each.now, word, ()))
            tried.append(digest)
        with verdicts.open("a") as file:
            file.writelines(json.dumps(asdict(each)) + "\n" for each in found)
        return found

    def run_(*arguments: str) -> tuple[list[str], list[str]]:
        words = ["mutants", "--count", "10", "--only", "compiler/figures.py", *arguments]
        monkeypatch.setattr(sys, "argv", words)
        monkeypatch.setattr(mutation, "_attempts", attempts)
        before = len(tried)
        assert mutation.main() == 0
        return tried[before:], capsys.readouterr().out.splitlines()

    return run_


def test_parts_are_the_sample_and_nothing_is_tried_twice(
    run: Callable[..., tuple[list[str], list[str]]],
) -> None:
    """Three parts have all faults; what is known of the sample is added up, and the rest is counted."""
    first, told = run("--part", "1/3")
    assert told == ["2 of 4 seen: 50%", "6 of the sample of 10 have not been tried yet"]
    again, told_again = run("--part", "1/3")
    assert (again, told_again) == ([], told)
    second, _ = run("--part", "2/3")
    third, told = run("--part", "3/3")
    assert [len(each) for each in (first, second, third)] == [4, 3, 3]
    assert len({*first, *second, *third}) == 10
    assert told == ["5 of 10 seen: 50%"]
    assert run("--seed", "1") == ([], told)
    assert len(run("--again")[0]) == 10


def test_a_fault_of_a_changed_file_is_another_fault() -> None:
    """The digest is of the whole file, so that what was found out of its former text does not count."""
    from attrs import evolve

    path = mutation.ROOT / "compiler/figures.py"
    made = (make() for make in mutation.mutants_of(path, mutation.ROOT))
    one = next(each for each in made if each is not None)
    assert mutation._digest(one) == mutation._digest(evolve(one))
    assert mutation._digest(one) != mutation._digest(evolve(one, text=f"{one.text}\n"))


MODULE = """\
from __future__ import annotations

HALF = 1 / 2


class Scale:
    @property
    def half(self):
        \"\"\"Half of it.\"\"\"
        return HALF


def sign(number):
    if number > 0:
        return (
            +1
        )
    elif number < 0:
        return -1
    return 0
"""


def test_marks_say_which_test_runs_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark is written once for each test; any function stands for what is outside of all functions.

    The condition of an `elif` stands for itself with the `if` above it.
    """
    marks = tmp_path / "marks.txt"
    numbers = {3: 0, 9: 1, 14: 2, 16: 3, 18: 4, 19: 5, 20: 6}  # 3 is outside of every function, 18 an `elif`
    module: dict[str, Any] = {"__name__": "module"}
    exec(covering.marked(MODULE, numbers, str(marks)), module)  # noqa: S102  # the text above

    def marks_of(test: str, number: int) -> list[str]:
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"{test} (call)")
        marks.write_text("")
        module["sign"](number)
        return sorted(marks.read_text().splitlines())

    assert marks_of("a", 1) == ["0 a", "2 a", "3 a", "4 a"]
    assert marks_of("a", 1) == []
    assert marks_of("b", -1) == ["0 b", "2 b", "4 b", "5 b"]
    assert marks_of("c", 0) == ["0 c", "2 c", "4 c", "6 c"]
    marks.write_text("")
    assert module["Scale"]().half == 0.5
    assert sorted(marks.read_text().splitlines()) == ["1 c"]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_what_is_no_part_is_refused(text: str, run: Callable[..., tuple[list[str], list[str]]]) -> None:
    """A part that is not there, or is not written as one, ends the command before anything is tried."""
    with pytest.raises(SystemExit) as ended:
        run(f"--part={text}")
    assert ended.value.code == 2
