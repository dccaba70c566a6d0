"""The random states of towers, and runs that are equal bit for bit."""

import pytest

from compiler.graph.randomness import draw_seed
from tests.models import data, model, train


@pytest.mark.family(every=4)
@pytest.mark.usefixtures("deterministic_ops")
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("normal", {"update__batch_norm": "synchronized"}),
        ("normal", {"update__accumulate": "2", "update__clip": "global_norm(0.1)"}),
        ("words", {"update__precision": "mixed_float16"}),
        ("recurrent", {"update__aggregate": "tree"}),
    ],
    ids=["synchronized", "accumulate", "words", "recurrent"],
)
def test_two_runs_are_equal_bit_for_bit(kind: str, settings: dict[str, str]) -> None:
    """Weights, slots and losses after some steps of three clones with dropout are the same bits twice."""
    layers = {
        "normal": "-> Conv2D(4, 3) -> BatchNormalization() -> Flatten() -> Dropout(0.5)",
        "words": "-> Embedding(40, 4) -> Dropout(0.5) -> Flatten()",
        "recurrent": "-> Embedding(40, 4) -> Dropout(0.5) -> LSTM(5, dropout = 0.2)",
    }[kind]
    spec = model(kind, clones=3, batch=(9, 4, 3), optimizer="Adam(0.1)", **{**settings, "layers": layers})
    arrays = data(kind, 96)
    first, losses = train(spec, arrays, 4)
    second, again = train(spec, arrays, 4)
    assert again == losses
    assert {name: value.tobytes() for name, value in second.items()} == {
        name: value.tobytes() for name, value in first.items()
    }


def test_a_seed_that_nobody_gives_is_another_one_each_time() -> None:
    """A number that fits into 31 bits."""
    drawn = {draw_seed() for _ in range(20)}
    assert len(drawn) > 10
    assert all(0 <= each < 2**31 for each in drawn)
