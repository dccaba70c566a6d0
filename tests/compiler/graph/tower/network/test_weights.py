"""Functions mean for a free weight what they mean in Keras, alone and with examples.

That every function means what it means there is shown by `tests/catalogue`, for examples.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.storage.export import keras_model
from compiler.graph.tower.trace import Tracer
from compiler.model.elaborate import elaborate
from tests.support import Training, cloned, refusal_of, spec_of

INPUTS = """
  x = input(float32, [4, 6])
  ids = input(int32, [4])
  row = input(float32, [6])
  image = input(float32, [8, 8, 2])
  y = input(float32, [1])
  w = weight([5, 6])
  p = weight([4, 6])
  v = weight([6])
  s = weight([6, 6])
  t = weight([])
  k = weight([3, 3, 2, 2])
  pic = weight([1, 8, 8, 3])
"""
TAIL = """
  guess = row -> Dense(1, name = "guess")
  output = {{ {outputs} }}
  loss = [y, guess] -> MeanSquaredError()
"""
SHAPES = {
    "w": (5, 6),
    "p": (4, 6),
    "v": (6,),
    "s": (6, 6),
    "t": (),
    "k": (3, 3, 2, 2),
    "pic": (1, 8, 8, 3),
}

UNARY = "abs argsort cumsum max norm softmax sort transpose zeros_like"
ALONG = "argmax cumsum max softmax sort"
BINARY = "add divide equal logical_and maximum power"
ALONE = """
ops.take(w, [0, 3], axis = 0)
ops.take(w, ops.arange(3), axis = 0)
ops.take(w, 1, axis = 1)
w[0]
w[1:3]
w[:, 2]
w[-1, ::2]
w[..., 0]
w[none, 2:]
w[ops.arange(3)]
w[..., ops.arange(3)]
w[1:, ops.arange(3)]
-w
2 * w - w / 3 + t
ops.allclose(w, w + 1.0)
ops.append(w, p, axis = 0)
ops.append(w, v)
ops.concatenate([w, p], axis = 0)
ops.concatenate([w, w], axis = 1)
ops.stack([p, p])
ops.stack([p, p], axis = -1)
ops.hstack([w, w])
ops.vstack([w, p])
ops.dstack([w, w])
ops.cast(w * 9, int32)
ops.matmul(p, ops.transpose(w))
ops.einsum("ij,kj->ik", w, p)
ops.reshape(w, [3, 10])
ops.reshape(w, [-1])
ops.segment_sum(w, ops.array([0, 0, 1, 1, 2]), 3)
ops.split(w, 1, axis = 0)
ops.unstack(w[:1])
ops.where(ops.greater(w, 0.5), w, 0.0)
ops.conv(pic[..., :2], k)
ops.image.resize(pic, [4, 4])
ops.fold(ops.ones([1, 8, 4]) * t, [3, 3], 2)
ops.where(ops.equal(ops.identity(6), 1), s, t)
ops.full([2, 3], t)
ops.array(2.0) * w
w + ops.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
w * ops.ones([6]) + ops.zeros([6]) + ops.tri(1)
"""
JOINED = """
ops.take(w, ids, axis = 0)
w[ids]
w[ids, :]
w[ids, ::2]
w[ids[:, 0]]
ops.take(w, ids, axis = 0) + p
x + p
x + v
x * t
t * x
x - p
p - x
x / p
p / x
x + w[1:]
x + p[:, :1]
row * w[2]
ops.matmul(x, s)
ops.matmul(x, ops.transpose(w))
ops.matmul(s, ops.transpose(x, [0, 2, 1]))
ops.matmul(row, s)
ops.matmul(row, v)
ops.take(x, ops.array([0, 2]), axis = 1) * w[0]
x[:, ops.arange(2)] * w[0]
ops.dot(x, s)
ops.dot(x, v)
ops.einsum("btd,vd->btv", x, w)
ops.einsum("vd,btd->bv", w, x)
ops.where(ops.greater(x, 0.5), x, p)
ops.where(ops.greater(p, 0.5), x, p)
ops.select([ops.greater(x, 0.5), ops.greater(p, 0.4)], [p, x], 0)
ops.take_along_axis(x, ops.reshape(ids, [-1, 4, 1]) - 1, axis = 1)
ops.broadcast_to(t, [1]) + row
ops.batch_normalization(x, v, v, -1)
ops.conv(image, k)
ops.clip(x, t, 1.0)
ops.clip(x, 0.0, p)
ops.average(x, axis = 1, weights = p[:, 0])
ops.full_like(x, t)
ops.slice_update(x, [0, 0, 0], x[:, :2] * w[0])
ops.equal(ids, ops.argmax(p, axis = 1))
ops.multiply(ids, ops.cast(t * 5, int32))
"""
BESIDE = """
ops.concatenate([p, x], axis = 1)
ops.concatenate([x, w], axis = 1)
ops.concatenate([v, row], axis = -1)
ops.append(x, w, axis = 1)
ops.stack([v, row], axis = 1)
ops.stack([row, v], axis = -1)
ops.hstack([p, x])
ops.dstack([x, p])
"""
"""What Keras refuses because a weight lacks an axis: here it is put beside each example."""

REFUSED = {
    "ops.matmul(w, ops.transpose(x, [1, 0, 2]))": "TFD561",
    "ops.take(w, ids, axis = 1)": "TFD561",
    "w[:, ids]": "TFD561",
    "ops.take(x, ids, axis = 0)": "TFD561",
    "ops.take(x, ids)": "TFD561",
    "x + w": "TFD506",
    "row + p": "TFD561",
    "ops.matmul(w, row)": "TFD506",
    "ops.stack([v, row])": "TFD561",
    "ops.concatenate([w, row], axis = 0)": "TFD561",
    "ops.concatenate([w, row], axis = 1)": "TFD506",
    "ops.concatenate([p[none], x], axis = 1)": "TFD506",
    "ops.cdist(w, row)": "TFD561",
    "ops.flip(x)": "TFD561",
    "ops.softmax(y[:, 0])": "TFD561",
    "ops.cdist(row, row)": "TFD561",
    "ops.roll(x, 1)": "TFD561",
    "ops.triu(row)": "TFD561",
    "ops.flipud(x)": "TFD561",
    "ops.vander(row[:, 0])": "TFD561",
    "w[ids, 0]": "TFD553",
    "w[ids, ids]": "TFD553",
    "x[:, ids]": "TFD553",
    "w[row]": "TFD506",
    "w[ops.greater(v, 0.5)]": "TFD506",
    "w[7]": "TFD506",
    "ops.reshape(w, [4, 4])": "TFD506",
    "ops.transpose(w, [0, 2, 1])": "TFD506",
}


SEVERAL = {"ops.svd(w)": 3, "ops.split(w, [2], axis = 0)": 2, "ops.unstack(w[:2])": 2}
"""Functions that give several tensors, and how many."""


def _written() -> Iterator[tuple[str, bool]]:
    """Yield the expressions, and whether each has examples."""
    for name in UNARY.split():
        yield f"ops.{name}(w)", False
    for name in ALONG.split():
        yield f"ops.{name}(w, axis = 0)", False
        yield f"ops.{name}(x * p, axis = 1)", True
    for name in BINARY.split():
        boolean = name.startswith("logical")
        first, second = ("ops.greater(x, 0.5)", "ops.greater(p, 0.5)") if boolean else ("x", "p")
        yield f"ops.{name}({second}, {second})", False
        yield f"ops.{name}({first}, {second})", True
        yield f"ops.{name}({second}, {first})", True
    yield from ((each, False) for each in ALONE.strip().split("\n"))
    yield from ((each, True) for each in (JOINED.strip() + BESIDE.rstrip()).split("\n"))


class _Indexed:
    """A tensor with NumPy's indices by tensors, which those of TensorFlow lack."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        parts = tuple(each.numpy() if isinstance(each, tf.Tensor) else each for each in parts)
        return tf.constant(self.value.numpy()[parts])


def _by_keras(expression: str, tensors: Mapping[str, Any]) -> Any:
    """Return the value that Keras gives to an expression of the spec."""
    words = {"ops": keras.ops, "true": True, "false": False, "none": None}
    words |= {each: each for each in ("int32", "float32")}
    expression = expression.replace("x[:, ops.arange(2)]", "x[:, :2]")
    expression = re.sub(r"^w(?=\[.*(ids|arange))", "indexed", expression)
    return eval(expression, {**words, **tensors, "indexed": _Indexed(tensors["w"])})  # noqa: S307 Python's own


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list | tuple) else value


def _arrays(examples: int) -> dict[str, Any]:
    generator = np.random.default_rng(5)
    shapes = {"x": (4, 6), "row": (6,), "image": (8, 8, 2), "y": (1,)}
    found = {
        name: generator.uniform(0.1, 0.9, (examples, *shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    return found | {"ids": generator.integers(1, 4, (examples, 4)).astype(np.int32)}


@pytest.fixture(scope="module")
def weights() -> dict[str, Any]:
    """Return values of the free weights."""
    generator = np.random.default_rng(1)
    return {name: generator.uniform(0.1, 0.9, shape).astype(np.float32) for name, shape in SHAPES.items()}


@pytest.mark.full
def test_operations_on_weights_are_those_of_keras(weights: Mapping[str, Any]) -> None:
    """On two clones, each expression has the value that Keras gives to the whole batch.

    What is made of weights alone is the same for all examples. Without a batch axis it has the shape that it
    has in Keras.
    """
    rows = [*_written()]
    bound = "".join(f"  e{at} = {each}\n" for at, (each, _) in enumerate(rows))
    last = [*SEVERAL.items()]
    for at, (each, count) in enumerate(last):
        names = ", ".join(f"s{at}_{number}" for number in range(count))
        bound += f"  {names} = {each}\n"
    found = [f"e{at}" for at in range(len(rows))]
    found += [f"s{at}_{number}" for at, (_, count) in enumerate(last) for number in range(count)]
    tail = TAIL.format(outputs=", ".join(f"o_{each} = {each}" for each in found))
    arrays = _arrays(8)
    with Training(spec_of(cloned(INPUTS + bound + tail)), arrays) as training:
        training.assign({f"{name}/weight": value for name, value in weights.items()})
        towers = training.session.run([clone.outputs for clone in training.compiled.clones])
    made = {name: np.concatenate([tower[f"o_{name}"] for tower in towers]) for name in found}
    tensors = {name: tf.constant(value) for name, value in {**weights, **arrays}.items()}
    repeated = {name: tf.stack([value] * 8) for name, value in weights.items()}
    expected: list[tuple[str, str, Any, bool]] = [
        (
            f"e{at}",
            each,
            _first(_by_keras(each, tensors | repeated if each in BESIDE else tensors)),
            of_examples,
        )
        for at, (each, of_examples) in enumerate(rows)
    ]
    for at, (each, _) in enumerate(last):
        values = _by_keras(each, tensors)
        expected += [(f"s{at}_{number}", each, value, False) for number, value in enumerate(values)]
    wrong = []
    for name, each, value, of_examples in expected:
        wanted = np.asarray(value) if of_examples else np.broadcast_to(value, (8, *np.shape(value)))
        same = made[name].shape == wanted.shape
        if not same or not np.allclose(made[name], wanted, rtol=1e-4, atol=1e-4, equal_nan=True):
            wrong.append((each, made[name].shape, wanted.shape))
    assert not wrong


@pytest.mark.parametrize(("written", "code"), REFUSED.items())
def test_what_cannot_work_is_refused_at_its_place(written: str, code: str) -> None:
    """The shapes in the message are those of the spec: a weight has no axis for the batch."""
    text = cloned(INPUTS + f"  e = {written}\n" + TAIL.format(outputs="o = e"))
    found = refusal_of(lambda: Tracer(elaborate(spec_of(text)), 3).trace(4, training=True))
    assert found.code == code
    assert found.span.text in written


TRAINED = """
tfdeploy = 1
layer "looked_up" {
  table = input()
  ids = input()
  output = table[ids]
}
model "m" {
  ids = input(int32, [4])
  label = input(int32, [4])
  table = weight([9, 6])
  places = weight([4, 6])
  rare = weight([50, 6])
  token = weight([2, 6])
  scale = weight([], initializer = ones)
  found = [table, ids] -> looked_up()
  x = scale * (found + places) - ops.take(rare, 3 * ids, axis = 0)
  mixed = ops.concatenate([token, x], axis = 1) -> Dense(6, activation = tanh, name = "mixed")
  both = [token, mixed] -> Concatenate(axis = 1)
  logits = ops.einsum("btd,vd->btv", both[:, 4:], table) + ops.matmul(x, ops.transpose(table))
  loss = (
    ([label, logits] -> SparseCategoricalCrossentropy(from_logits = true))
    + 0.1 * ops.sum(ops.square(table))
    + 0.2 * ops.mean(logits, axis = [1, 2])
  )
  output = { logits = logits, table = table }
  metrics { hits = [label, logits] -> SparseCategoricalAccuracy() }
}
devices { cpu = 2 }
clones { count = 2, batch = [3, 5] }
update { optimizer = SGD(0.5) }
train { seed = 3 }
"""
MODES: dict[str, tuple[str, dict[str, str]]] = {
    "plain": ("", {}),
    "micro-batches": ("", {"clones__batch": "4", "update__accumulate": "2"}),
    "replicated": ("place { variables -> replicated }", {}),
    "sharded": ('place { variables -> cpu[0], variables("table/*") -> sharded(cpu[*], axis = 0) }', {}),
}


class _Twin(keras.Model):  # type: ignore[misc] # Keras has no types
    """The model above as one writes it in Keras."""

    def __init__(self) -> None:
        super().__init__()
        shapes = {"table": (9, 6), "places": (4, 6), "rare": (50, 6), "token": (2, 6), "scale": ()}
        self.free = {name: self.add_weight(name=name, shape=shape) for name, shape in shapes.items()}
        self.mixed = keras.layers.Dense(6, activation="tanh")
        self.mixed.build((None, 6, 6))

    def call(self, ids: Any) -> Any:
        ops, free = keras.ops, self.free
        x = free["scale"] * (ops.take(free["table"], ids, axis=0) + free["places"])
        x -= ops.take(free["rare"], 3 * ids, axis=0)
        token = ops.broadcast_to(free["token"], (ops.shape(ids)[0], 2, 6))
        both = ops.concatenate([token, self.mixed(ops.concatenate([token, x], axis=1))], axis=1)
        logits = ops.einsum("btd,vd->btv", both[:, 4:], free["table"])
        return logits + ops.matmul(x, ops.transpose(free["table"]))

    def loss_of(self, ids: Any, label: Any) -> Any:
        logits = self(ids)
        entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(label, logits)
        penalty = keras.ops.sum(keras.ops.square(self.free["table"]))
        return entropy + 0.1 * penalty + 0.2 * keras.ops.mean(logits)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_weights_that_are_only_looked_up_have_gradients_of_rows(precision: str) -> None:
    """The gradient of `rare` has rows, as that of an embedding; `table` is multiplied too and has all."""
    tracer = Tracer(elaborate(spec_of(TRAINED)), 3, precision)
    (part,) = tracer.trace(4, training=True).losses
    rows = {name for name, each in part.gradients.items() if each.indices is not None}
    assert rows == {"rare/weight"}


@pytest.mark.family(every=4)
@pytest.mark.parametrize("mode", MODES)
def test_a_model_of_free_weights_learns_as_that_of_keras(mode: str, tmp_path: Path) -> None:
    """Look-ups, tied weights, positions, a class token and a scale: loss, new weights and predictions."""
    generator = np.random.default_rng(2)
    size = 16 if mode == "micro-batches" else 8
    arrays = {name: generator.integers(0, 9, (size, 4)).astype(np.int32) for name in ("ids", "label")}
    place, changed = MODES[mode]
    with Training(spec_of(TRAINED + place, **changed), arrays) as training:
        before = training.values()
        (loss,) = training.steps(1)
        after = training.values()
        compiled = training.compiled
        exported = keras_model(compiled, {name: after[name] for name in compiled.weights})
    twin = _Twin()
    known = {f"{name}/weight": variable for name, variable in twin.free.items()}
    known |= {"mixed/kernel": twin.mixed.kernel, "mixed/bias": twin.mixed.bias}
    for name, variable in known.items():
        variable.assign(before[name])
    with tf.GradientTape() as tape:
        wanted = twin.loss_of(arrays["ids"], arrays["label"])
    assert loss == pytest.approx(float(wanted), rel=1e-5)
    gradients = tape.gradient(wanted, [each.value for each in known.values()])
    keras.optimizers.SGD(0.5).apply(gradients, list(known.values()))
    for name, variable in known.items():
        np.testing.assert_allclose(after[name], variable.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)

    exported.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    for count in (3, 0):
        found = loaded(tf.constant(arrays["ids"][:count]))
        np.testing.assert_allclose(found["logits"], twin(arrays["ids"][:count]).numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found["table"], np.stack([after["table/weight"]] * 3)[:count])
