"""From the IR back to text: it reads to an equal IR, and comes out the same the second time."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import grammar
from dsl import ir
from dsl.source import Source
from dsl.values import Dimension, units_of
from dsl.values import quantity as quantity_of
from grammar.format import format_text
from grammar.unparse import quantity, quoted, unparse
from tests.folders import ROOT
from tests.grammar.broken_specs import mutants

SPECS = [*(ROOT / "examples").rglob("*.tfdeploy"), *(ROOT / "tests/grammar/specs").glob("*.tfdeploy")]

HEAD = 'tfdeploy = 1\nmodel "m" { x = input(float32, [4]), y = x -> Dense(2), output = y }\n'


def read(text: str) -> ir.Spec:
    """Return the IR of a text without errors."""
    reading = grammar.read("test.tfdeploy", text=text, allow_python=True)
    assert reading.spec is not None, [each.message for each in reading.diagnostics]
    return reading.spec


def shown(text: str) -> str:
    """Return what unparsing the IR of `text` gives, after seeing that it reads to the same IR."""
    spec = read(text)
    once = unparse(spec)
    assert read(once) == spec
    assert unparse(read(once)) == once
    assert format_text(Source("test.tfdeploy", once)) == once
    return once


@pytest.mark.family(every=4)
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_whole_specs(path: Path) -> None:
    """The examples, and the specs that use the whole language, survive the way to text and back."""
    shown(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("update { pack = 4096KiB }", "pack = 4MiB"),
        ("update { pack = 1_000_000B }", "pack = 1MB"),
        ("update { pack = 1023B }", "pack = 1023B"),
        ("devices { link = 12GB }", "link = 12GB"),
        ("train { checkpoint_every = 600s }", "checkpoint_every = 10min"),
        ("train { checkpoint_every = 1.5s }", "checkpoint_every = 1500ms"),
        ("train { checkpoint_every = 0.1us }", "checkpoint_every = 1e-07s"),
        ("train { checkpoint_every = 50 }", "checkpoint_every = 50"),
        ("clones { count = 2, batch = [8, 4] }", "batch = [8, 4]"),
        ("update { optimizer = Adam(1 / 4) }", "optimizer = Adam(0.25)"),
        (
            "update { optimizer = SGD(learning_rate = CosineDecay(0.1, 100)) }",
            "optimizer = SGD(learning_rate = CosineDecay(0.1, 100))",
        ),
        ("update { aggregate = shuffle(2) }", "aggregate = shuffle(2)"),
        ("update { clip = value(0.5) }", "clip = value(0.5)"),
        ("update { ema = 0.5 }", "ema = 0.5"),
        ("update { ema = none }", "ema = none"),
        ("update { ema = EMA(1 / 2, warm_up = true) }", "ema = EMA(0.5, warm_up = true)"),
        ('update { mode = "sync" }', "mode = sync"),
        (r'train { directory = "a \"b\"\t\\ é" }', r'directory = "a \"b\"\t\\ é"'),
    ],
)
def test_values(written: str, expected: str) -> None:
    """Values come out in the largest unit that fits, words bare, strings in quotes, arithmetic done."""
    assert f"  {expected}\n" in shown(f"{HEAD}{written}\n")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a * (b + 1)", "a * (b + 1)"),
        ("(a * b) + 1", "a * b + 1"),
        ("a - (b - 1)", "a - (b - 1)"),
        ("a - b - 1", "a - b - 1"),
        ("a / (b / 2) / 2", "a / (b / 2) / 2"),
        ("-a", "-a"),
        ("-(a + b)", "-(a + b)"),
        ("a * -b", "a * -b"),
        ("a - -2", "a - (-2)"),
        ("2 * 3 + a", "6 + a"),
    ],
)
def test_arithmetic_of_parameters(written: str, expected: str) -> None:
    """What is left of arithmetic in a `layer` block keeps the brackets that it needs, and no others."""
    text = f"""tfdeploy = 1
layer "l" {{
  a = parameter(int)
  b = parameter(int, 3)
  x = input()
  output = x -> Dense({written})
}}
model "m" {{ x = input(float32, [4]), output = x -> l(2) }}
"""
    assert f"  output = x -> Dense({expected})\n" in shown(text)


def test_flows() -> None:
    """Shared layers, nested flows, lists, repetitions, applications and functions come out as steps."""
    text = """tfdeploy = 1
layer "l" { x = input(), output = x -> Dense(4) }
model "m" {
  x = input(float32, [32, 32, 3])
  t = input(float32, [2])
  shared = layer(Dense(4, activation = relu))
  a = x -> applications.MobileNet(weights = none, include_top = false) -> Flatten() -> shared
  b = [a -> shared, a] -> Concatenate() -> repeat(3, l()) -> python("mod:fun", units = 3, size = [1, 2])
  y = b
  z = y -> Dense(2, kernel_regularizer = L2(0.1), bias_initializer = he_normal)
  loss = 0.5 * ([t, z] -> MeanSquaredError()) - ([t, z -> Flatten()] -> MeanAbsoluteError())
}
"""
    assert (
        shown(text)[: shown(text).index("devices")]
        == """tfdeploy = 1

layer "l" {
  x = input()
  output = x -> Dense(4)
}

model "m" {
  x = input(float32, [32, 32, 3])
  t = input(float32, [2])
  shared = layer(Dense(4, activation = relu))
  a = x
    -> applications.MobileNet(weights = none, include_top = false)
    -> Flatten()
    -> shared
  b = [a -> shared, a]
    -> Concatenate()
    -> repeat(3, l())
    -> python("mod:fun", units = 3, size = [1, 2])
  y = b
  z = y -> Dense(2, kernel_regularizer = L2(0.1), bias_initializer = he_normal)
  loss = 0.5 * ([t, z] -> MeanSquaredError()) + -1.0 * ([t, z -> Flatten()] -> MeanAbsoluteError())
}

"""
    )


_DIMENSIONS = st.sampled_from(["seconds", "fraction"])


@given(st.integers(1, 2**62))
def test_sizes_are_exact(size: int) -> None:
    """Any number of bytes comes back as it was."""
    assert _reread(quantity(size, "bytes"), "bytes") == size


@given(st.floats(1e-9, 1e9), _DIMENSIONS)
def test_durations_and_percentages_are_exact(amount: float, dimension: Dimension) -> None:
    """Any duration, and any percentage that can be written, comes back as it was."""
    if dimension == "fraction":
        amount = float(f"{amount:.12g}") / 100
    assert _reread(quantity(amount, dimension), dimension) == amount


def _reread(text: str, dimension: Dimension) -> float:
    unit = max((each for each in units_of(dimension) if text.endswith(each)), key=len)
    number = text.removesuffix(unit)
    return quantity_of(int(number) if number.isdigit() else float(number), unit).amount


TEXTS = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), max_size=30)


@given(TEXTS.filter(str.strip))  # the directory must not be empty
def test_any_string_survives(text: str) -> None:
    """Whatever a string holds, quotes, backslashes and line breaks too, comes back as it was."""
    assert "\n" not in quoted(text)
    spec = read(f"{HEAD}train {{ directory = {quoted(text)} }}\n")
    assert spec.train.directory == text


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.full)])
def test_mutated_specs(count: int) -> None:
    """A spec with one change that is still good survives the way to text and back."""
    texts = [path.read_text(encoding="utf-8") for path in SPECS]
    done = 0
    for text in mutants(texts, count, seed=3):
        if grammar.read("test.tfdeploy", text=text, allow_python=True).spec is not None:
            shown(text)
            done += 1
    assert done > count // 5


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("ops.abs(x)[:, 0]", None),
        ("(x + 1)[:, 1:3]", None),
        ("(-x)[..., 0]", None),
        ("(x -> Dense(3))[..., ::2]", None),
        ("(x[:, 0])[:, 1]", None),
        ("-(x)[:, 0] * 2", "-x[:, 0] * 2"),
        ("ops.sum(ops.abs(x)[:, 0], axis = -1)", None),
    ],
)
def test_indices_of_expressions_keep_their_brackets(written: str, expected: str | None) -> None:
    """They come out as they were written, and mean the same again."""
    text = """tfdeploy = 1
model "m" { x = input(float32, [4, 3]), y = %s, output = y }
"""
    out = shown(text % written)
    assert f"  y = {expected or written}\n" in out
