"""Arguments beyond their range are refused by `check`, at the argument."""

import pytest

import grammar
from compiler.checks import diagnose

LAYER = """tfdeploy = 1
layer "l" {
  n = parameter(int)
  x = input()
  output = x -> STEP
}
model "m" {
  x = input(float32, SHAPE)
  k = input(int32, [])
  y = x -> Flatten() -> Dense(3)
  z = x -> USE
  output = y
  loss = [k, y] -> SparseCategoricalCrossentropy(from_logits = true)
}
data { train = synthetic(64, x = feature(float32, SHAPE), k = feature(int32, [], classes = 3)) DATA }
devices { cpu = 1 }
clones { CLONES }
update { UPDATE }
train { steps = 2, TRAIN }
"""
PLAIN = {
    "STEP": "Flatten()",
    "USE": "l(1)",
    "SHAPE": "[8, 8, 3]",
    "DATA": "",
    "CLONES": "batch = 4",
    "UPDATE": "optimizer = SGD(0.1)",
    "TRAIN": "keep = 5",
}


def told(**changes: str) -> list[tuple[str, str]]:
    """Return the code and the text at the place of each error."""
    text = LAYER
    for key, value in {**PLAIN, **changes}.items():
        text = text.replace(key, value)
    found = diagnose(grammar.read("a", text=text))
    return [(each.code, "" if each.span is None else each.span.text) for each in found if each.is_error]


@pytest.mark.parametrize(
    ("place", "written", "at"),
    [
        ("USE", "Dense(-16)", "-16"),
        ("USE", "Conv2D(0, 3)", "0"),
        ("USE", "Conv2D(4, [3, -3])", "-3"),
        ("USE", "Conv2D(4, [3, 3, 3])", "[3, 3, 3]"),
        ("USE", "MaxPooling2D(2, strides = 0)", "0"),
        ("USE", "Dropout(1.5)", "1.5"),
        ("USE", "RandomRotation(3)", "3"),
        ("USE", "Flatten() -> Dense(4, kernel_regularizer = L2(-0.1))", "-0.1"),
        ("DATA", "-> shuffle(9223372036854775808)", "9223372036854775808"),
        ("UPDATE", "optimizer = SGD(-0.1)", "-0.1"),
        ("UPDATE", "optimizer = SGD(0.1, momentum = 1.5)", "1.5"),
        ("UPDATE", "optimizer = SGD(ExponentialDecay(0.1, 0, 0.9))", "0"),
        ("UPDATE", "optimizer = SGD(0.1), pack = 1e300GB", "1e300GB"),
        ("TRAIN", "checkpoint_every = 1e300d", "1e300d"),
        ("TRAIN", "task_timeout = 36501d", "36501d"),
    ],
)
def test_a_number_beyond_its_range_is_refused_where_it_is_written(place: str, written: str, at: str) -> None:
    """The error is the only one, and marks the argument."""
    assert told() == []
    assert told(**{place: written}) == [("TFD305", at)]


def test_the_largest_duration_and_integer_are_taken() -> None:
    """What is within the bounds is not refused."""
    assert told(DATA="-> shuffle(9223372036854775807)", TRAIN="checkpoint_every = 36499d") == []


@pytest.mark.parametrize(
    "step", ["LSTM(4, stateful = true)", "RNN(LSTMCell(4), stateful = true)", "GRU(4, stateful = true)"]
)
def test_a_state_from_one_batch_to_the_next_is_refused(step: str) -> None:
    """A recurrent layer that would keep its state is refused at the word, and `false` is taken."""
    assert told(USE=step, SHAPE="[5, 2]") == [("TFD594", "true")]
    assert told(USE=step.replace("true", "false"), SHAPE="[5, 2]") == []


@pytest.mark.parametrize(
    ("step", "number", "error"),
    [
        ("Dense(n)", "-16", [("TFD305", "n")]),
        ("Dense(n)", "16", []),
        ("Conv2D(4, [n, 1])", "0", [("TFD305", "[n, 1]")]),
        ("Conv2D(n, 3, groups = 2)", "3", [("TFD507", "Conv2D(n, 3, groups = 2)")]),
        ("Conv2D(n, 3, groups = 3)", "3", []),
        ("Conv2D(4, 3, strides = n, dilation_rate = n)", "2", [("TFD507", "")]),
    ],
)
def test_arguments_that_parameters_decide_are_checked_too(
    step: str, number: str, error: list[tuple[str, str]]
) -> None:
    """The values of a use of a `layer` block are those that count."""
    wanted = [(code, at or step) for code, at in error]
    assert told(STEP=step, USE=f"l({number}) -> Flatten()") == wanted
