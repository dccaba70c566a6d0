"""`make mutants` tries a sample of faults in parts, each fault once, and adds up what became of them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from attrs import asdict

from tools.mutation import __main__ as mutation

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
    (tmp_path / "seconds.json").write_text("{}")
    monkeypatch.setattr(mutation, "FOLDER", tmp_path)
    monkeypatch.setattr(mutation, "VERDICTS", verdicts)
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
    one = next(iter(mutation.mutants_of(path, mutation.ROOT)))
    assert mutation._digest(one) == mutation._digest(evolve(one))
    assert mutation._digest(one) != mutation._digest(evolve(one, text=f"{one.text}\n"))


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_what_is_no_part_is_refused(text: str, run: Callable[..., tuple[list[str], list[str]]]) -> None:
    """A part that is not there, or is not written as one, ends the command before anything is tried."""
    with pytest.raises(SystemExit) as ended:
        run(f"--part={text}")
    assert ended.value.code == 2
