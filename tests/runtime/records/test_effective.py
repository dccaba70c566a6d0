"""The spec as it ran: every file that it names is named by a path that leads there from any folder."""

import re
from pathlib import Path

import pytest

import grammar
from dsl import ir
from tfdeploy.runtime.records.effective import effective_text, files_of

MODEL = """
tfdeploy = 1
layer "start" {
  x = input()
  output = x -> Dense(4, weights = "inner.keras", name = "dense")
}
model "m" {
  word = input(string, [3])
  other = input(string, [3])
  image = input(float32, [128, 128, 3])
  label = input(float32, [2])
  words = word -> StringLookup(vocabulary = "words.txt", name = "words")
  others = other -> StringLookup(5, 1, "[UNK]", vocabulary = ["words.txt"], name = "others")
  started = label -> start(weights = "block.keras")
  a = image -> applications.MobileNet(weights = "imagenet", name = "a") -> Dense(2)
  b = image -> applications.MobileNet(weights = "own.h5", name = "b") -> Dense(2)
  c = image -> applications.MobileNet(weights = "new.keras", name = "c") -> Dense(2)
  output = [a, b, c] -> Add()
}
train {
  weights { "started/*" -> "a.keras" }
}
"""
DIGITS = """
tfdeploy = 1
model "m" {
  image = input(float32, [28, 28, 1])
  label = input(int32, [])
  out = image -> Flatten() -> Dense(10)
  loss = [label, out] -> SparseCategoricalCrossentropy(from_logits = true)
}
data {
  train = mnist(images = "pictures.gz", labels = "digits.gz")
  validation = csv("part-*.csv", image = "image*", label = "digits.gz")
  test = mnist("pictures.gz", "digits.gz")
}
train {
  weights = "all.keras"
}
"""
PAIRS = 'data { train = images("photos", [28, 28], masks = "masks") -> rename(label = mask) }'


def load(folder: Path, text: str, directory: str | None = None) -> ir.Spec:
    """Return a spec in a folder, with that run directory."""
    overrides = [("train.directory", directory)] if directory is not None else []
    reading = grammar.read(folder / "m.tfdeploy", overrides, text=text)
    assert reading.spec is not None, [each.message for each in reading.diagnostics]
    return reading.spec


def named(folder: Path, text: str) -> list[str]:
    """Return the texts in a spec as it ran that name something in its folder, without the folder."""
    return re.findall(rf'"{re.escape(str(folder))}/([^"]*)"', effective_text(load(folder, text)))


def test_files_of_the_model_and_of_its_data_are_found_from_anywhere(tmp_path: Path) -> None:
    """A collection of weights, words that are written out and the columns of a table are no files."""
    (tmp_path / "own.h5").touch()
    assert sorted(named(tmp_path, MODEL)) == sorted(
        ["inner.keras", "words.txt", "block.keras", "own.h5", "new.keras", "a.keras"]
    )
    assert sorted(named(tmp_path, DIGITS)) == sorted(
        ["pictures.gz", "digits.gz", "part-*.csv", "pictures.gz", "digits.gz", "all.keras"]
    )
    pairs = re.sub(r"data \{.*?\n\}", PAIRS, DIGITS, flags=re.DOTALL)
    assert sorted(named(tmp_path, pairs)) == ["all.keras", "masks", "photos"]
    (tmp_path / "own.h5").unlink()  # then it is taken for the name of a collection
    assert "own.h5" not in named(tmp_path, MODEL)


@pytest.mark.parametrize(
    ("given", "beside", "expected"),
    [
        ("mine", "runs/x", "mine"),
        (None, "runs/x", "runs/x"),
        ("/else/where", None, "/else/where"),
        (None, None, None),
    ],
)
def test_the_run_directory_starts_from_the_folder_of_the_process(
    tmp_path: Path, given: str | None, beside: str | None, expected: str | None
) -> None:
    """That of the spec comes before the one that a run has chosen; without both there is none."""
    text = effective_text(load(tmp_path, DIGITS, given), None if beside is None else Path(beside))
    written = [] if expected is None else [f'directory = "{Path.cwd() / expected}"']
    assert re.findall(r"directory = .*", text) == written


def test_globs_and_absolute_paths_are_files_that_are_there(tmp_path: Path) -> None:
    """What a glob does not match, a folder, and files that are missing are none."""
    for name in ("part-1.csv", "part-2.csv", "other.csv", "all.keras", "else.gz"):
        (tmp_path / name).touch()
    (tmp_path / "part-3.csv").mkdir()
    text = DIGITS.replace('"pictures.gz"', f'"{tmp_path / "else.gz"}"')
    names = [each.name for each in files_of(load(tmp_path, text))]
    assert sorted(names) == ["all.keras", "else.gz", "else.gz", "part-1.csv", "part-2.csv"]
