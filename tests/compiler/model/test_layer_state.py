"""What layers know beside their weights, put into their calls, and results that are kept."""

from pathlib import Path

import pytest

from compiler.model.elaborate import elaborate
from compiler.model.graph import ModelGraph, kept_for_latest
from compiler.model.layer_state import adapting_layers, split_of, with_states, with_vocabularies
from dsl import ir
from tests.support import marked, refusal_of, spec_of

TEXT = """
tfdeploy = 1
model "m" {{
  word = input(string, [])
  number = input(int64, [])
  size = input(float32, [1])
  w = word -> StringLookup({words}, output_mode = one_hot)
  n = number -> IntegerLookup({numbers}, output_mode = one_hot)
  s = size -> Discretization(num_bins = 4, adapt = data.train, output_mode = one_hot)
  output = [w, n, s] -> Concatenate()
}}
data {{
  train = csv("a.csv", word = "w", number = "n", size = "s")
  validation = csv("a.csv", word = "w", number = "n", size = "s")
}}
"""


def model(words: str = 'vocabulary = "words.txt"', numbers: str = "adapt = data.validation") -> ModelGraph:
    """Return a model with three layers that learn something before they are trained."""
    return elaborate(spec_of(TEXT.format(words=words, numbers=numbers)))


def arguments(graph: ModelGraph) -> dict[str, dict[str, ir.Value]]:
    """Return the arguments of each layer by name."""
    return {each.path: dict(each.call.kwargs) for each in graph.layers}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\nb\n", ("a", "b")),
        ("a\nb", ("a", "b")),
        ("a\r\nb\r\n", ("a", "b")),
        ("a\n\n", ("a", "")),
        ("ä b\n", ("ä b",)),
    ],
)
def test_words_of_a_file(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """Each line is a word, however lines end, and the last needs no end; other layers stay as they are."""
    (tmp_path / "words.txt").write_bytes(text.encode())
    before = model()
    after = with_vocabularies(before, tmp_path)
    assert arguments(after)["string_lookup"] == {"vocabulary": words, "output_mode": "one_hot"}
    assert after.layers[1:] == before.layers[1:]


def test_numbers_of_a_file(tmp_path: Path) -> None:
    """A layer for whole numbers gets them as such."""
    (tmp_path / "numbers.txt").write_text("7\n-3\n")
    after = with_vocabularies(model('vocabulary = ["a"]', 'vocabulary = "numbers.txt"'), tmp_path)
    assert arguments(after)["integer_lookup"]["vocabulary"] == (7, -3)
    assert arguments(after)["string_lookup"]["vocabulary"] == ("a",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"7\nx\n", "line 2 is no whole number"),
        (b"\xff\n", "it is not UTF-8"),
        (None, "no such file or directory"),
    ],
)
def test_files_that_are_no_vocabulary(content: bytes | None, reason: str, tmp_path: Path) -> None:
    """The file is named, and marked in the spec."""
    if content is not None:
        (tmp_path / "numbers.txt").write_bytes(content)
    found = refusal_of(
        lambda: with_vocabularies(model('vocabulary = ["a"]', 'vocabulary = "numbers.txt"'), tmp_path)
    )
    assert reason in " ".join((found.message, found.text, *found.notes))
    assert marked(found) == '"numbers.txt"'


def test_a_model_without_files_stays_the_same(tmp_path: Path) -> None:
    """Nothing is read."""
    before = model('vocabulary = ["a"]')
    assert with_vocabularies(before, tmp_path) is before


def test_layers_that_learn_from_data() -> None:
    """In the order in which they are called, each with its split."""
    found = adapting_layers(model())
    assert [(each.path, split_of(each)) for each in found] == [
        ("integer_lookup", "validation"),
        ("discretization", "train"),
    ]


def test_states_replace_what_they_were_made_from() -> None:
    """The number of bins is that of the boundaries; other arguments stay."""
    before = model()
    states = {"discretization": {"bin_boundaries": (1.0, 2.0)}, "integer_lookup": {"vocabulary": (4,)}}
    after = with_states(before, states)
    assert arguments(after) == {
        **arguments(before),
        "integer_lookup": {"vocabulary": (4,), "output_mode": "one_hot"},
        "discretization": {"bin_boundaries": (1.0, 2.0), "output_mode": "one_hot"},
    }
    assert adapting_layers(after) == []
    assert with_states(before, {}) is before


def test_a_result_is_made_once_for_an_object() -> None:
    """The same object gets the same result; an equal one, and the first one after another, a new one."""
    given: list[list[int]] = []

    @kept_for_latest
    def counted(argument: list[int]) -> int:
        """Return how often this was called."""
        given.append(argument)
        return len(given)

    one, equal = [1], [1]
    assert [counted(one), counted(one), counted(equal), counted(one)] == [1, 1, 2, 3]
    assert counted.__doc__ == "Return how often this was called."
