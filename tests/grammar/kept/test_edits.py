"""Texts that change: what is kept of the last reading gives what reading the whole text gives."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import grammar
from grammar.kept import text as module
from grammar.kept.spec import KeptSpec
from tests.folders import EXAMPLES, ROOT
from tests.grammar.kept.edits import edited, places, said

if TYPE_CHECKING:
    from pathlib import Path

SPECS = sorted([*EXAMPLES.rglob("*.tfdeploy"), *(ROOT / "tests" / "golden" / "errors").rglob("*.tfdeploy")])
PARTS = 24
MODEL = """\
tfdeploy = 1

let {
  width = 8
}

model "small" {
  image = input(float32, [4])
  digit = input(int32, [])
  hidden = image
    -> Dense(width)
    -> Dropout(0.5)
  # the last of them
  logits = hidden -> Dense(10)
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}

data {
  train = synthetic(9, image = feature(float32, [4]), digit = feature(int32, [], 10))
}
"""


def same(text: str, path: Path | str, kept: KeptSpec, texts: dict[str, str] | None = None) -> grammar.Reading:
    """Read a text with what is kept of the last one, and compare all with reading it alone."""
    found = grammar.read(path, text=text, texts=texts, kept=kept)
    alone = grammar.read(path, text=text, texts=texts)
    assert said(found) == said(alone), text
    assert found.spec == alone.spec, text
    assert places(found.spec) == places(alone.spec), text
    assert places(found.trees) == places(alone.trees), text
    allowances = [[each.allowances for each in reading.trees] for reading in (found, alone)]
    assert places(allowances[0]) == places(allowances[1]), text
    return found


@pytest.mark.family(every=24)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_edits(part: int) -> None:
    """Errors come and go, several at once, over the borders of blocks, with all kinds of line ends."""
    specs = SPECS[part::PARTS]
    for number, spec in enumerate(specs):
        chosen = random.Random(1000 * part + number)  # noqa: S311 edits are no secret
        text = good = spec.read_text()
        if number % 5 == 0:
            text = good = text.replace("\n", "\r\n")
        kept = KeptSpec()
        for _ in range(10):
            found = same(text, spec, kept)
            good = good if found.diagnostics.has_errors else text
            again = chosen.random()
            text = edited(text if again < 0.4 else good, chosen) if again < 0.7 else good


@pytest.mark.family(every=2)
@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_a_text_that_is_typed(end: str) -> None:
    """Every prefix, one character after the other."""
    text, kept = MODEL.replace("\n", end), KeptSpec()
    for length in range(0, len(text) + 1, 5):
        same(text[:length], "spec.tfdeploy", kept)


TYPED = '  more = logits -> Dense(3, name = "head") -> Softmax()'


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of which the whole was parsed."""
    parsed: list[str] = []
    parse = module.parse

    def noting(source: module.Source, reports: module.Reports) -> module.syntax.File | None:
        parsed.append(source.text)
        return parse(source, reports)

    monkeypatch.setattr(module, "parse", noting)
    return parsed


@pytest.mark.family(every=3)
@pytest.mark.parametrize("before", ["  logits =", "  loss =", "}\n\ndata"])
def test_a_line_that_is_typed_is_parsed_alone(before: str, whole: list[str]) -> None:
    """Not even a bracket or a quote without its partner makes the rest of the text be parsed again."""
    kept = KeptSpec()
    same(MODEL, "spec.tfdeploy", kept)
    head, tail = MODEL.split(before)
    assert len(whole) == 1
    for length in range(len(TYPED) + 1):
        same(f"{head}{TYPED[:length]}\n{before}{tail}", "spec.tfdeploy", kept)
    assert len(whole) == 1


def test_bindings_that_stay_are_not_lowered_again() -> None:
    """They are the same records, unless what a name in them means has changed."""
    kept = KeptSpec()
    same(MODEL, "spec.tfdeploy", kept)
    first = same(MODEL.replace("0.5", "0.25"), "spec.tfdeploy", kept)
    second = same(MODEL.replace("0.5", "0.25").replace("[4]", "[5]", 1), "spec.tfdeploy", kept)
    third = same(MODEL.replace("width = 8", "width = 9"), "spec.tfdeploy", kept)
    bindings = [
        {each.name: each for each in reading.spec.model.bindings}
        for reading in (first, second)
        if reading.spec
    ]
    assert [name for name in bindings[0] if bindings[0][name] is bindings[1][name]] == [
        "digit", "hidden", "logits",
    ]  # fmt: skip
    assert third.spec is not None
    hidden = third.spec.model.bindings[2]
    assert "9" in str(hidden)
    assert "8" not in str(hidden)


def test_included_files_are_kept_too(tmp_path: Path, whole: list[str]) -> None:
    """An edit of one file leaves what is kept of the other; their errors stay where they are."""
    main, part = tmp_path / "main.tfdeploy", tmp_path / "part.tfdeploy"
    begin, end = MODEL.index("model"), MODEL.index("data {")
    text = f'tfdeploy = 1\ninclude = ["part.tfdeploy"]\n\n{MODEL[15:begin]}{MODEL[end:]}'
    inner = MODEL[begin:end]
    part.write_text(inner)
    kept = KeptSpec()
    chosen = random.Random(7)  # noqa: S311 edits are no secret
    for number in range(40):
        texts = {str(part): edited(inner, chosen) if number % 3 == 1 else inner}
        same(edited(text, chosen) if number % 3 == 2 else text, main, kept, texts)
    assert len(whole) < 40


def test_what_is_set_from_outside_is_not_remembered() -> None:
    """Bindings that `--set` changes are those of each reading, whatever was set in the one before."""
    kept = KeptSpec()
    units = []
    for value in (None, "3", "4", None):
        overrides = () if value is None else (("model.logits.Dense.units", value),)
        spec = grammar.read("spec.tfdeploy", overrides, text=MODEL, kept=kept).spec
        assert spec == grammar.read("spec.tfdeploy", overrides, text=MODEL).spec
        assert spec is not None
        units.append(str(spec.model.bindings[3]))
    assert len(set(units)) == 3
