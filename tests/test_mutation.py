"""`make mutants` tries a sample of faults in parts, each fault once, and adds up what became of them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, evolve

from tools.mutation import __main__ as mutation
from tools.mutation import covering, forking
from tools.mutation.mutants import Mutant


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[list[str], list[str]]]:
    """Return a function that runs the command for ten faults of one file, every second of which is seen.

    Of the others every second is seen by tests marked `full`. The function returns the faults that were
    tried, as digests, and the lines that were printed. No test is run.
    """
    verdicts = tmp_path / "verdicts.jsonl"
    monkeypatch.setattr(mutation, "FOLDER", tmp_path)
    monkeypatch.setattr(mutation, "VERDICTS", verdicts)
    tried: list[str] = []

    def attempts(_: Sequence[Mutant], own: Sequence[Mutant], *__: Any, fresh: bool) -> list[mutation.Verdict]:
        assert not fresh
        found = []
        for each in own:
            digest = mutation._digest(each)
            word = ("seen", "missed", "hung", "seen in full")[len(tried) % 4]
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
    assert told == [
        "2 of 4 seen by make test: 50%",
        "3 of 4 seen by make test or make full: 75%",
        "6 of the sample of 10 have not been tried yet",
    ]
    again, told_again = run("--part", "1/3")
    assert (again, told_again) == ([], told)
    second, _ = run("--part", "2/3")
    third, told = run("--part", "3/3")
    assert [len(each) for each in (first, second, third)] == [4, 3, 3]
    assert len({*first, *second, *third}) == 10
    assert told == ["5 of 10 seen by make test: 50%", "7 of 10 seen by make test or make full: 70%"]
    assert run("--seed", "1") == ([], told)
    assert len(run("--again")[0]) == 10


def test_a_fault_of_a_changed_file_is_another_fault() -> None:
    """The digest is of the whole file, so that what was found out of its former text does not count."""
    path = mutation.ROOT / "compiler/figures.py"
    made = (make() for make in mutation.mutants_of(path, mutation.ROOT))
    one = next(each for each in made if each is not None)
    assert mutation._digest(one) == mutation._digest(evolve(one))
    assert mutation._digest(one) != mutation._digest(evolve(one, text=f"{one.text}\n"))


def test_other_files_change_nothing_of_what_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The faults of a file keep their places among the others when there are more files."""
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    (tmp_path / "compiler").mkdir()
    (tmp_path / "compiler/old.py").write_text("numbers = [1, 2, 3, 4, 5, 6, 7, 8]\n")
    before = mutation._sample(6, 1, "")
    assert len({each.now for each in before}) == 6
    assert mutation._sample(6, 2, "") != before
    (tmp_path / "compiler/new.py").write_text("numbers = [11, 12, 13, 14]\n")
    among = [each for each in mutation._sample(12, 1, "") if each.path == "compiler/old.py"]
    assert among[:6] == before


def test_nothing_is_changed_that_no_program_notices(tmp_path: Path) -> None:
    """As annotations, assertions, and whether sequences that are equally long have to be."""
    text = "a: 1 = b\nassert 1\nfor c in zip(d, e, strict=True):\n    f(g, repr=False)\n    h(i=j)\n"
    (tmp_path / "one.py").write_text(text)
    made = [make() for make in mutation.mutants_of(tmp_path / "one.py", tmp_path)]
    found = sorted((each.was, each.now) for each in made if each is not None)
    assert found == [("f(g, repr=False)", "pass"), ("h(i=j)", "h()"), ("h(i=j)", "pass")]


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


def test_the_nearest_tests_come_first(tmp_path: Path) -> None:
    """Tests with the name of a module come first, then those that import it, then those that speak of it."""
    texts = {
        "compiler/stamp/test_places.py": "",
        "compiler/test_import.py": "from compiler.stamp import places",
        "compiler/stamp/test_other.py": "# places",
        "compiler/stamp/test_another.py": "",
        "compiler/stamp/test_processes.py": "from compiler.stamp import places; from tests import forked",
        "cli/test_plan.py": "",
    }
    for name, text in texts.items():
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text(text)
    found = covering.Nearness(tmp_path).candidates("compiler/stamp/places.py")
    assert found == [f"tests/{name}" for name in texts]
    nearness = covering.Nearness(tmp_path)
    assert nearness.named("compiler/stamp/places.py") == {found[0], found[1], found[4]}
    assert [nearness.slowness(each) for each in found] == [0, 0, 0, 0, 2, 0]
    speaking = "tests/cli/test_speaking.py"
    (tmp_path / speaking).write_text("# of a deed")
    assert covering.Nearness(tmp_path).candidates("compiler/stamp/places.py", "deed")[2] == speaking
    assert nearness.candidates("compiler/stamp/__init__.py")[0] == found[1]
    assert nearness.named("compiler/stamp/__init__.py") == {found[1], found[4]}


def test_a_line_has_the_name_of_its_function_or_of_what_it_makes() -> None:
    """The innermost function counts, and outside of all the variable."""
    found = [covering.name_at(MODULE, line) for line in range(1, MODULE.count("\n") + 1)]
    assert [(at, name) for at, name in enumerate(found, 1) if name][:1] == [(3, "HALF")]
    assert set(found[5:10]) == {"", "half"}
    assert set(found[11:]) == {"", "sign"}


def test_what_is_known_of_tests_chooses_among_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest of each file are chosen in turn, and run file by file; what did not pass is left out."""
    mutant = mutation.Mutant("compiler/a.py", 3, "1", "2", "")
    known, in_full = covering.Covering.of_sample(tmp_path, [mutant])
    assert known.of(("compiler/a.py", 3)) == []
    seconds = {"x::slow": 2.0, "x::fast": 0.5, "y::middle": 1.0, "x::other": 0.1}
    known.marks.write_text(
        "".join(f"0 {test}\n" for test in ("x::slow", "x::fast", "y::middle", "y::failed"))
    )
    known.seconds.write_text("".join(f"{json.dumps(each)}\n" for each in seconds.items()))
    known.add("x")
    assert known.of(("compiler/a.py", 3)) == ["x::fast", "x::slow", "y::middle"]
    assert known.of(("compiler/a.py", 3), {"y"}) == ["y::middle", "x::fast", "x::slow"]
    monkeypatch.setattr(covering, "MOST_SECONDS", 3.0)
    assert known.of(("compiler/a.py", 3)) == ["x::fast", "y::middle"]
    monkeypatch.setattr(covering, "MOST_TESTS", 1)
    assert known.of(("compiler/a.py", 3)) == ["x::fast"]
    assert known.time_of(["x::fast", "y::middle"]) == 1.5
    in_full.seconds.write_text(json.dumps(["y::failed", 4.0]))
    in_full.add("y")
    assert in_full.of(("compiler/a.py", 3)) == ["y::failed"]
    again = covering.Covering.of_sample(tmp_path, [mutant])
    assert [(each.full, each.measured) for each in again] == [(False, {"x"}), (True, {"y"})]
    other = mutation.Mutant("compiler/b.py", 3, "1", "2", "")
    assert [each.measured for each in covering.Covering.of_sample(tmp_path, [other])] == [set(), set()]
    assert not in_full.seconds.exists()


def tried_with_more(folder: Path, monkeypatch: pytest.MonkeyPatch, server: Any, near: list[str]) -> Any:
    """Return what becomes of a fault, and the tests that it is tried with, if some files are near."""
    monkeypatch.setattr(mutation, "ROOT", folder)
    monkeypatch.setattr(mutation, "FOLDER", folder)
    mutant = mutation.Mutant("compiler/a.py", 3, "1", "2", "")
    attempts = mutation.Attempts([mutant], [mutant], [], fresh=False)
    monkeypatch.setattr(attempts, "_near", lambda _: near)
    return attempts._try_with_more(server, mutant)


@pytest.mark.parametrize(
    ("sees", "verdict", "measured", "tried"),
    [
        ("none", "missed", [False, True], ["a::one", "a::full"]),
        ("a::one", "seen", [False], ["a::one"]),
        ("a::full", "seen in full", [False, True], ["a::full"]),
    ],
)
def test_tests_marked_full_come_after_all_others(
    sees: str,
    verdict: str,
    measured: list[bool],
    tried: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are run only if no test of `make test` sees a fault, and have a verdict of their own."""
    runs: list[bool] = []

    class Server:
        def measure(self, _: str, seconds: Path, *, full: bool) -> None:
            runs.append(full)
            name = "a::full" if full else "a::one"
            seconds.write_text(json.dumps([name, 1.0]))
            with (tmp_path / "marks.txt").open("a") as marks:
                marks.write(f"0 {name}\n")

        def attempt(self, _: object, tests: Sequence[str], *__: object, fresh: bool) -> str:
            assert not fresh
            return "seen" if sees in tests else "missed"

    assert tried_with_more(tmp_path, monkeypatch, Server(), ["a"]) == (verdict, tuple(tried))
    assert runs == measured


def test_a_fault_that_no_test_runs_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is `unrun`, whether or not there are tests marked `full`."""
    assert tried_with_more(tmp_path, monkeypatch, None, []) == ("unrun", ())


SCALE = """LIMIT = 5


def scaled(number):
    while number < LIMIT:
        number += 3
    return number
"""
SCALE_TESTS = """import pytest
from scale import scaled


def test_small_numbers():
    assert scaled(1) == 7


def test_large_numbers():
    assert scaled(9) == 9


@pytest.mark.full
def test_middle_numbers():
    assert scaled(4) == 7
"""


@pytest.mark.full
def test_tries_are_forked_from_a_process_that_has_the_tests(tmp_path: Path) -> None:
    """A fault in a function is tried with the module imported before, others with a fresh import.

    Tests marked `full` are run if they are asked for, and measured apart from the others. The file has its
    former text afterwards.
    """
    (tmp_path / "scale.py").write_text(SCALE)
    (tmp_path / "test_scale.py").write_text(SCALE_TESTS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\naddopts = --import-mode=importlib -m 'not full'\nmarkers = full\n"
    )
    small, large, middle = (f"test_scale.py::test_{each}_numbers" for each in ("small", "large", "middle"))
    files = [tmp_path / f"{name}.jsonl" for name in ("seconds", "full-seconds")]

    def request(was: str, now: str, *tests: str, **more: Any) -> dict[str, Any]:
        changed = {"scale.py": SCALE.replace(was, now)}
        return {"tests": tests, "changed": changed, "limit": 100.0, "fresh": False, **more}

    requests = [
        {"collect": ["test_scale.py"]},
        request("+= 3", "+= 2", small, large),
        request("+= 3", "+= 2", large),
        request("+= 3", "+= 0", small, limit=3.0),  # does not end by itself
        request("+= 3", "+= 2", middle),
        request("LIMIT = 5", "LIMIT = 2", middle, fresh=True),
        request("LIMIT = 5", "LIMIT = 9", small, fresh=True),
        request("LIMIT = 5", "LIMIT = 9", large, fresh=True),
        request("", "", "test_scale.py", seconds=str(files[0]), at_most=5.0, full=False),
        request("", "", "test_scale.py", seconds=str(files[1]), at_most=5.0, full=True),
        request("+= 3", "+= 3", small, large),
    ]
    program = "from tools.mutation import forking; forking.LIBRARIES = ('pytest',); forking.main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input="".join(f"{json.dumps(each)}\n" for each in requests),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(mutation.ROOT)},
        check=True,
    )
    assert done.stdout.split() == [
        "collected",
        "seen",
        "missed",
        "hung",
        "seen",
        "seen",
        "seen",
        "missed",
        "missed",
        "missed",
        "missed",
    ]
    assert (tmp_path / "scale.py").read_text() == SCALE
    measured = [[json.loads(line)[0] for line in each.read_text().splitlines()] for each in files]
    assert measured == [[small, large], [middle]]


def test_functions_of_every_kind_get_the_code_of_the_other_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Methods, properties and functions with variables of an outer one are exchanged where they are."""
    old = (
        "def outer(a):\n    def inner(b):\n        return a + b\n    return inner\n\n"
        "class One:\n    @property\n    def two(self):\n        return 2\n\n"
        "    @staticmethod\n    def three():\n        return [each for each in (3,)]\n"
    )
    monkeypatch.chdir(tmp_path)
    module: dict[str, Any] = {"__name__": "module"}
    exec(compile(old, str(tmp_path / "module.py"), "exec"), module)  # noqa: S102  # the text above
    one, inner = module["One"](), module["outer"](1)
    functions = forking.functions_of(str(tmp_path))["module.py"]
    new = old.replace("a + b", "a - b").replace("return 2", "return 20").replace("(3,)", "(30,)")
    forking.exchange(functions, "module.py", old, new)
    assert (inner(1), module["outer"](1)(1), one.two, one.three()) == (0, 0, 20, [30])


@pytest.mark.parametrize(("ends", "words"), [(math.inf, ["seen", "seen"]), (0.0, [])])
def test_no_fault_is_begun_after_the_end(
    ends: float, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is not written down, so that the next run tries it; the processes end in any case."""
    closed: list[int] = []

    class Idle:
        def __init__(self, index: int, *_: Any) -> None:
            self.index = index

        def close(self) -> None:
            closed.append(self.index)

    monkeypatch.setattr(mutation, "Server", Idle)
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    monkeypatch.setattr(mutation, "FOLDER", tmp_path)
    monkeypatch.setattr(mutation, "VERDICTS", tmp_path / "verdicts.jsonl")
    monkeypatch.setattr(mutation.Attempts, "_try_with_more", lambda *_: ("seen", ()))
    (tmp_path / "compiler").mkdir()
    (tmp_path / "compiler/one.py").write_text("numbers = [1, 2]\n")
    sample = mutation._sample(2, 1, "")
    found = mutation.Attempts(sample, sample, [], ends, fresh=False).make(1)
    assert [each.verdict for each in found] == words
    assert len(mutation._tried()) == len(words)
    assert closed == [0]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_what_is_no_part_is_refused(text: str, run: Callable[..., tuple[list[str], list[str]]]) -> None:
    """A part that is not there, or is not written as one, ends the command before anything is tried."""
    with pytest.raises(SystemExit) as ended:
        run(f"--part={text}")
    assert ended.value.code == 2
