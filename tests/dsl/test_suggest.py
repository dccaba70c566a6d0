"""The nearest known name."""

import pytest

from dsl import suggest
from dsl.suggest import nearest, nearest_paths


@pytest.mark.parametrize(
    ("name", "known", "wanted"),
    [
        ("optimzer", ["optimizer", "mode"], "optimizer"),
        ("asnyc", ["async", "sync", "local"], "async"),
        ("snyc", ["async", "sync", "local"], "sync"),
        ("conv2d", ["Conv1D", "Conv2D", "Conv3D"], "Conv2D"),
        ("addn", ["add_n", "tree"], "add_n"),
        ("GlobalAvgPooling2D", ["GlobalMaxPooling2D", "GlobalAveragePooling2D"], "GlobalMaxPooling2D"),
        ("gp", ["gpu", "cpu"], "gpu"),
        ("x", ["y", "z"], None),
        ("FullyConnected", ["Dense", "Conv2D"], None),
        ("sync", ["sync"], None),
        ("a" * 100, ["a" * 99], None),
        ("anything", [], None),
    ],
)
def test_nearest(name: str, known: list[str], wanted: str | None) -> None:
    """Swapped, missing, wrong and surplus letters, case and underscores are forgiven, other words are not."""
    assert nearest(name, known) == wanted


def test_order_does_not_matter() -> None:
    """Of two names equally near the first in the alphabet is taken, in whatever order they come."""
    assert nearest("cat", ["hat", "bat"]) == nearest("cat", ["bat", "hat"]) == "bat"


def test_nearest_paths() -> None:
    """As many parts are compared as the pattern has; if nothing is alike, the first names are given."""
    names = ["encoder/dense/kernel", "encoder/dense/bias", "decoder/out/kernel"]
    assert nearest_paths("decodr/*", names)[0] == "decoder/*"
    assert nearest_paths("zzz", names) == ("decoder", "encoder")
    assert nearest_paths("enc*", ["encoder/a", "decoder/b"]) == ("encoder*",)
    assert nearest_paths("a/b/c/d", names) == ()


def test_of_many_names_those_near_in_the_alphabet_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelling is found among ten thousand names, and few of them are looked at."""
    known = [f"layer_{at:05}" for at in range(10_000)] + ["zebra_crossing"]
    compared: list[str] = []
    distance = suggest._distance

    def counted(left: str, right: str) -> float:
        compared.append(right)
        return distance(left, right)

    monkeypatch.setattr(suggest, "_distance", counted)
    assert nearest("zebra_crosing", known) == "zebra_crossing"
    assert nearest("layer_0500", known) is not None
    assert len(compared) <= 1000
