"""`tfdeploy init` writes specs that are free of errors, and replaces nothing."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from statistics import mean

import pytest

import grammar
from dsl.source import Source
from grammar.format import format_text
from tests.cli.conftest import Command
from tests.folders import ROOT
from tfdeploy.runtime.records import files
from tfdeploy.templates import templates

ZOO = sorted(path.stem for path in (ROOT / "examples" / "zoo").glob("*.tfdeploy"))


def test_the_templates_are_the_commented_one_and_the_zoo(command: Command) -> None:
    """Each has a line in the list, under a heading."""
    assert set(templates()) == {"start", *ZOO}
    listed = command("init", "--list").out.splitlines()
    assert "Images:" in listed
    assert {line.split()[0] for line in listed if line.startswith("  ")} == {"start", *ZOO}
    assert not any((command.directory / f"{each}.tfdeploy").exists() for each in templates())


@pytest.mark.parametrize("name", ["start", "text_cnn", *ZOO[::9]])
def test_what_is_written_has_no_errors_and_is_in_the_one_style(command: Command, name: str) -> None:
    """In a folder that did not exist, with the data files that the spec names."""
    done = command("init", "new/mine.tfdeploy", "--template", name)
    assert (done.code, done.err) == (0, "")
    assert "  tfdeploy compile-and-run new/mine.tfdeploy" in done.out.splitlines()
    path = command.directory / "new" / "mine.tfdeploy"
    assert list(grammar.read(path).diagnostics) == []
    assert format_text(Source("", path.read_text())) == path.read_text()


def test_the_first_template_explains_every_block(command: Command) -> None:
    """Each block has a comment above it."""
    command("init")
    lines = command.read("start.tfdeploy").splitlines()
    opened = [at for at, line in enumerate(lines) if line.endswith("{") and not line.startswith(" ")]
    assert len(opened) == 8
    assert [lines[at] for at in opened if not lines[at - 1].startswith("# ")] == []


def test_kinds_of_the_made_up_data_can_be_told_apart(command: Command) -> None:
    """The nearest mean of the training table names the kind of most, and not all, rows of the other table."""
    command("init")
    train, test = (_rows(command.directory / "data" / f"{name}.csv") for name in ("train", "test"))
    assert (len(train), len(test)) == (600, 150)
    assert not set(train) & set(test)
    centres = {
        kind: [mean(column) for column in zip(*(row[:-1] for row in train if row[-1] == kind), strict=True)]
        for kind in (0, 1, 2)
    }
    right = sum(_nearest(row[:-1], centres) == row[-1] for row in test)
    assert 0.8 * len(test) < right < len(test)


def _rows(path: Path) -> list[tuple[float, ...]]:
    with path.open() as file:
        return [tuple(map(float, row)) for row in list(csv.reader(file))[1:]]


def _nearest(features: tuple[float, ...], centres: dict[int, list[float]]) -> int:
    def distance(kind: int) -> float:
        return sum((one - other) ** 2 for one, other in zip(features, centres[kind], strict=True))

    return min(centres, key=distance)


@pytest.mark.parametrize("there", ["start.tfdeploy", "data/test.csv"])
def test_nothing_is_replaced_and_nothing_else_is_written(command: Command, there: str) -> None:
    """If one of the files is there, none is written."""
    command.write(there, "mine")
    done = command("init")
    assert (done.code, "TFD753" in done.err) == (2, True)
    assert command.read(there) == "mine"
    files = {str(path.relative_to(command.directory)) for path in command.directory.rglob("*.*")}
    assert files - {"data"} == {there, "good.tfdeploy"}


@pytest.mark.parametrize("fault", [OSError(ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_was_written_before_an_error_is_removed(
    command: Command, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    """If the spec, the last file, cannot be written, or Ctrl-C comes with it, no data stay either."""
    replacing = files.replacing

    @contextmanager
    def full(path: Path) -> Iterator[Path]:
        with replacing(path) as beside:
            yield beside
        if path.suffix == ".tfdeploy":
            with files.writing(path):
                raise fault

    monkeypatch.setattr(files, "replacing", full)
    done = command("init")
    is_full = isinstance(fault, OSError)
    assert (done.code, "no space left" in done.err) == (2 if is_full else 130, is_full)
    assert [path.name for path in command.directory.rglob("*.*")] == ["good.tfdeploy"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--devices", ""), "'' is not of the form gpu=2 or cpu=2"),
        (("--set", "clones.count=2"), "--set changes nothing of what init does"),
        (("--devices", "cpu=2"), "--devices and --clones are for --from"),
        (("--clones", "2"), "--devices and --clones are for --from"),
        (("--masks", "masks"), "--masks, --header and --columns are for --data"),
        (("--no-header",), "--masks, --header and --columns are for --data"),
        (("--columns", "a,b"), "--masks, --header and --columns are for --data"),
        (
            ("--data", "a.csv", "--columns", "a,b", "--header"),
            "--columns names the columns of a file without",
        ),
    ],
)
def test_options_need_the_one_that_they_belong_to(
    command: Command, words: tuple[str, ...], told: str
) -> None:
    """Nothing is written then."""
    done = command("init", "new.tfdeploy", *words)
    assert (done.code, told in done.err) == (2, True)
    assert not (command.directory / "new.tfdeploy").exists()
