"""Every optimizer follows Keras's own: dense and sparse, with its options and with every schedule."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve

import grammar
from compiler.graph.optimizers import Optimizer, make_optimizer
from compiler.graph.tower.template import WeightInfo
from dsl import ir
from dsl.schema import signatures
from tests.specs import LINE
from tests.support import Training, cloned, marked, refusal_of, spec_of

STEPS = 20
SHAPE = (7, 3)
RELATIVE = 1e-5

Gradients = Sequence[Any]  # of each step: an array, or (values, indices) of rows

WEIGHT = WeightInfo("dense/kernel", SHAPE, "float32", trainable=True, bytes=84, initializer=None)


def optimizer_call(text: str) -> ir.Call:
    """Return the call that a spec has for `update.optimizer = text`."""
    found = spec_of(LINE, update__optimizer=text).update.optimizer
    assert found is not None
    return found


def dense_gradients() -> Gradients:
    """Return gradients of every step, of sizes from 1e-3 to 1 and some of them zero."""
    generator = np.random.default_rng(1)
    made = generator.normal(size=(STEPS, *SHAPE)) * 10.0 ** generator.uniform(-3, 0, size=(STEPS, *SHAPE))
    made[generator.random(made.shape) < 0.1] = 0.0
    return list(made.astype(np.float32))


def sparse_gradients() -> Gradients:
    """Return rows for some indices, among them the same one several times; the last rows get none."""
    generator = np.random.default_rng(2)
    made = []
    for step in range(STEPS):
        indices = generator.integers(0, SHAPE[0] - 2, size=1 + step % 4)
        made.append((generator.normal(size=(len(indices), SHAPE[1])).astype(np.float32), indices))
    return made


def keras_gradient(gradient: Any) -> Any:
    """Return a gradient as Keras takes it; rows of equal index, which it does not take, are summed."""
    if not isinstance(gradient, tuple):
        return tf.constant(gradient)
    values, indices = gradient
    distinct, positions = np.unique(indices, return_inverse=True)
    rows = np.zeros((len(distinct), SHAPE[1]), np.float32)
    np.add.at(rows, positions, values)
    return tf.IndexedSlices(tf.constant(rows), tf.constant(distinct), tf.constant(SHAPE, tf.int64))


def start() -> Any:
    """Return the weights before the first step."""
    return np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def ours(rule: Optimizer, gradients: Gradients, dtype: str = "float32") -> tuple[Any, dict[str, Any]]:
    """Return weights and slots after applying `gradients` by an update rule, in a graph."""
    rule = rule.for_weight(evolve(WEIGHT, dtype=dtype), decays=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.Variable(0, dtype=tf.int64, use_resource=True)
        weight = tf.compat.v1.Variable(tf.cast(start(), dtype), use_resource=True)
        slots = {
            each.suffix: tf.compat.v1.Variable(
                tf.fill(
                    SHAPE if each.shape is None else each.shape, tf.cast(each.initial, each.dtype or dtype)
                ),
                use_resource=True,
            )
            for each in rule.slot_specs()
        }
        sparse = isinstance(gradients[0], tuple)
        values = tf.compat.v1.placeholder(tf.float32, (None, SHAPE[1]))
        indices = tf.compat.v1.placeholder(tf.int64, (None,))
        gradient: Any = tf.cast(tf.reshape(values, SHAPE), dtype)
        if sparse:  # rows of equal numbers are summed, as those of clones are
            distinct, places = tf.unique(indices)
            sums = tf.math.unsorted_segment_sum(values, places, tf.shape(distinct)[0])
            gradient = tf.IndexedSlices(sums, distinct)
        scalars = rule.scalars(step.read_value())
        applied = rule.apply(weight.handle, [each.handle for each in slots.values()], gradient, scalars)
        with tf.control_dependencies([applied]):
            counted = step.assign_add(1)
        session.run(tf.compat.v1.global_variables_initializer())
        for each in gradients:
            feed = {values: each[0], indices: each[1]} if sparse else {values: each}
            session.run(counted, feed)
        return session.run((weight, slots))


def keras_own(optimizer: Any, gradients: Gradients, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """Return weights and slots of a Keras optimizer after applying `gradients`, compiled as in `fit`."""
    weight = keras.Variable(start(), name="dense", dtype=dtype)
    optimizer.build([weight])
    rows = tf.IndexedSlicesSpec(SHAPE, tf.float32, tf.int64, tf.int64, indices_shape=[None])
    given = rows if isinstance(gradients[0], tuple) else tf.TensorSpec(SHAPE, tf.float32)
    apply = tf.function(
        lambda gradient: optimizer.apply(
            [gradient if dtype == "float32" else tf.cast(gradient, dtype)], [weight]
        ),
        input_signature=[given],
    )
    for each in gradients:
        apply(keras_gradient(each))
    return weight.numpy(), [each.numpy() for each in optimizer.variables if each.shape.rank]


SGD, RMS, FTRL = keras.optimizers.SGD, keras.optimizers.RMSprop, keras.optimizers.Ftrl
CASES: Mapping[str, Callable[[], Any]] = {
    "SGD()": SGD,
    "SGD(0.1)": lambda: SGD(0.1),
    "SGD(0.1, momentum = 0.9)": lambda: SGD(0.1, momentum=0.9),
    "SGD(0.1, 0.9, true)": lambda: SGD(0.1, momentum=0.9, nesterov=True),
    "SGD(1, weight_decay = 0.01)": lambda: SGD(1.0, weight_decay=0.01),
    "Momentum(0.1)": lambda: SGD(0.1, momentum=0.9),
    "Momentum(0.1, momentum = 0.5, nesterov = true)": lambda: SGD(0.1, momentum=0.5, nesterov=True),
    "Adam()": keras.optimizers.Adam,
    "Adam(0.01, 0.8, 0.95, 1e-3)": lambda: keras.optimizers.Adam(0.01, 0.8, 0.95, 1e-3),
    "Adam(0.01, beta_2 = 0.6, amsgrad = true)": lambda: keras.optimizers.Adam(0.01, beta_2=0.6, amsgrad=True),
    "Adam(0.01, weight_decay = 0.1)": lambda: keras.optimizers.Adam(0.01, weight_decay=0.1),
    "AdamW()": keras.optimizers.AdamW,
    "AdamW(0.01, 0.1, amsgrad = true)": lambda: keras.optimizers.AdamW(0.01, 0.1, amsgrad=True),
    "RMSprop()": RMS,
    "RMSprop(0.01, rho = 0.5, momentum = 0.9)": lambda: RMS(0.01, rho=0.5, momentum=0.9),
    "RMSprop(0.01, centered = true)": lambda: RMS(0.01, centered=True),
    "RMSprop(0.01, 0.9, 0.9, 0.1, true, 0.1)": lambda: RMS(
        0.01, 0.9, 0.9, 0.1, centered=True, weight_decay=0.1
    ),
    "Adagrad()": keras.optimizers.Adagrad,
    "Adagrad(0.1, initial_accumulator_value = 0, epsilon = 0.01)": lambda: keras.optimizers.Adagrad(
        0.1, 0.0, 0.01
    ),
    "Adagrad(0.1, weight_decay = 0.1)": lambda: keras.optimizers.Adagrad(0.1, weight_decay=0.1),
    "Adadelta()": keras.optimizers.Adadelta,
    "Adadelta(1, rho = 0.8, epsilon = 1e-4)": lambda: keras.optimizers.Adadelta(1.0, 0.8, 1e-4),
    "Ftrl()": FTRL,
    "Ftrl(0.1, learning_rate_power = -0.7, initial_accumulator_value = 0.3)": lambda: FTRL(0.1, -0.7, 0.3),
    "Ftrl(0.1, -0.5, 0.1, 0.1, 0.2, beta = 0.3)": lambda: FTRL(0.1, -0.5, 0.1, 0.1, 0.2, beta=0.3),
    "Ftrl(0.1, l2_shrinkage_regularization_strength = 0.1, weight_decay = 0.1)": lambda: FTRL(
        0.1, l2_shrinkage_regularization_strength=0.1, weight_decay=0.1
    ),
    "Lion()": keras.optimizers.Lion,
    "Lion(0.01, 0.8, 0.95, weight_decay = 0.1)": lambda: keras.optimizers.Lion(
        0.01, 0.8, 0.95, weight_decay=0.1
    ),
    "Lamb(0.01, weight_decay = 0.1)": lambda: keras.optimizers.Lamb(0.01, weight_decay=0.1),
    "Nadam(0.01, 0.8, 0.95, 1e-3)": lambda: keras.optimizers.Nadam(0.01, 0.8, 0.95, 1e-3),
    "Adamax(0.01, weight_decay = 0.1)": lambda: keras.optimizers.Adamax(0.01, weight_decay=0.1),
    "Adafactor(0.1)": lambda: keras.optimizers.Adafactor(0.1),
    "Adafactor(0.1, relative_step = false, clip_threshold = 0.5)": lambda: keras.optimizers.Adafactor(
        0.1, relative_step=False, clip_threshold=0.5
    ),
    "Muon(0.01)": lambda: keras.optimizers.Muon(0.01),
    'Muon(0.01, exclude_layers = ["dense"], adam_lr_ratio = 0.5)': lambda: keras.optimizers.Muon(
        0.01, exclude_layers=["dense"], adam_lr_ratio=0.5
    ),
}


@pytest.mark.family(every=10)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("text", CASES)
def test_it_follows_keras_over_20_steps(text: str, kind: str) -> None:
    """Weights and slots are those of Keras's optimizer, for gradients of whole variables and of rows."""
    gradients = dense_gradients() if kind == "dense" else sparse_gradients()
    optimizer = CASES[text]()
    config = optimizer.get_config()
    expected, expected_slots = keras_own(optimizer, gradients)
    weight, slots = ours(make_optimizer(optimizer_call(text)), gradients)
    if "RMSProp_1" in slots and config["momentum"] == 0:
        del slots["RMSProp_1"]  # the last change, which the fused op keeps and Keras does not
    assert weight == pytest.approx(expected, rel=RELATIVE, abs=1e-8)
    slots = {name: value for name, value in slots.items() if np.ndim(value)}  # without Nadam's product
    assert len(slots) == len(expected_slots)
    for slot, wanted in zip(slots.values(), expected_slots, strict=True):
        assert slot == pytest.approx(wanted, rel=RELATIVE, abs=1e-8)


def lazily(kind: str, gradients: Gradients, decay: float) -> tuple[Any, list[Any]]:
    """Return weights and slots of a lazy Adam, with `amsgrad` or without, or Adamax, by row in float64."""
    rate, beta_1, beta_2, epsilon = 0.01, 0.8, 0.95, 1e-3
    weight = start().astype(np.float64)
    first, second, largest = (np.zeros(SHAPE) for _ in range(3))
    for step, (values, indices) in enumerate(gradients, start=1):
        for row in np.unique(indices):
            gradient = values[indices == row].sum(0, dtype=np.float64)
            weight[row] *= 1 - rate * decay
            first[row] = beta_1 * first[row] + (1 - beta_1) * gradient
            corrected = rate / (1 - beta_1**step)
            if kind == "Adamax":
                second[row] = np.maximum(beta_2 * second[row], np.abs(gradient))
                weight[row] -= corrected * first[row] / (second[row] + epsilon)
                continue
            second[row] = beta_2 * second[row] + (1 - beta_2) * gradient**2
            largest[row] = np.maximum(largest[row], second[row])
            root = np.sqrt((largest if kind == "amsgrad" else second)[row]) + epsilon
            weight[row] -= corrected * np.sqrt(1 - beta_2**step) * first[row] / root
    return weight, [first, second, *([largest] if kind == "amsgrad" else [])]


@pytest.mark.parametrize("kind", ["Adam", "amsgrad", "Adamax"])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_lazy_changes_the_rows_of_the_batch_alone(kind: str, decay: float) -> None:
    """Rows and their slots are those of NumPy; rows that no batch has used are as they were."""
    name = kind if kind == "Adamax" else "AdamW" if decay else "Adam"
    options = "beta_1 = 0.8, beta_2 = 0.95, epsilon = 1e-3, lazy = true"
    options += ", amsgrad = true" if kind == "amsgrad" else ""
    options += f", weight_decay = {decay}" if decay else ""
    expected, expected_slots = lazily(kind, sparse_gradients(), decay)
    weight, slots = ours(make_optimizer(optimizer_call(f"{name}(0.01, {options})")), sparse_gradients())
    assert weight == pytest.approx(expected, rel=RELATIVE, abs=1e-7)
    for slot, wanted in zip(slots.values(), expected_slots, strict=True):
        assert slot == pytest.approx(wanted, rel=RELATIVE, abs=1e-7)
    assert (weight[-2:] == start()[-2:]).all()


IN_16_BITS = ("Adam()", "Adam(0.01, weight_decay = 0.1)", "AdamW()", "RMSprop()", "Adadelta()", "Lion()")
IN_16_BITS += ("RMSprop(0.01, centered = true)",)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("text", IN_16_BITS)
def test_weights_of_16_bits_follow_keras_to_the_bit(text: str, dtype: str) -> None:
    """Kernels of TensorFlow would take 0.999 for 1 in bfloat16, and divide by the root of nothing."""
    expected, _ = keras_own(CASES[text](), dense_gradients(), dtype)
    weight, _ = ours(make_optimizer(optimizer_call(text)), dense_gradients(), dtype)
    assert np.isfinite(weight.astype(np.float32)).all()
    assert (weight == expected).all()


def test_lazy_takes_whole_weights_of_16_bits_too() -> None:
    """They are updated as if all rows had a gradient; bfloat16 has three digits."""
    expected, _ = keras_own(keras.optimizers.Adam(0.01), dense_gradients())
    lazy = make_optimizer(optimizer_call("Adam(0.01, lazy = true)"))
    weight, _ = ours(lazy, dense_gradients(), "bfloat16")
    assert weight.astype(np.float32) == pytest.approx(expected, abs=0.05)
    assert lazy.is_one_op(tf.constant(1.0))
    assert not lazy.is_one_op(tf.constant(1.0, tf.bfloat16))  # which takes its turn in `mode = async`


def test_a_group_updates_weights_of_16_and_of_32_bits() -> None:
    """Each by its rule, which take different numbers of the step."""
    text = LINE.replace("Dense(1", "Dense(3, dtype = bfloat16) -> Dense(1")
    spec = spec_of(text, update__optimizer="Adam(0.01)", clones__batch="4")
    inputs = {"x": np.ones((4, 3), np.float32), "y": np.full((4, 1), 3, np.float32)}
    losses = Training(spec, inputs).steps(STEPS)
    assert losses[-1] < losses[0] < 100


@pytest.mark.parametrize("name", ["Adam", "Adamax"])
def test_lazy_is_the_same_for_gradients_of_whole_variables(name: str) -> None:
    """There are no rows to leave out."""
    lazy, slots = ours(make_optimizer(optimizer_call(f"{name}(0.01, lazy = true)")), dense_gradients())
    plain, wanted = ours(make_optimizer(optimizer_call(f"{name}(0.01)")), dense_gradients())
    assert (lazy == plain).all()
    assert all((slots[name] == wanted[name]).all() for name in wanted)


ROWS_TOO = ("SGD(0.1)", "Adam(0.1)", "Adam(0.1, amsgrad = true)", "Momentum(0.1)", "Adadelta()", "Ftrl()")
ROWS_TOO += ("RMSprop()", "RMSprop(centered = true)")


@pytest.mark.parametrize(
    ("text", "sparse"),
    [
        *((each, sparse) for each in ROWS_TOO for sparse in (False, True)),
        ("Adagrad()", True),
        ("Adam(0.1, weight_decay = 0.1, lazy = true)", True),
    ],
)
def test_what_changes_a_variable_locks_it(text: str, *, sparse: bool) -> None:
    """Several clones may update a variable at the same time."""
    rule = make_optimizer(optimizer_call(text)).for_weight(WEIGHT, decays=True)
    with tf.Graph().as_default() as graph:
        made = [tf.compat.v1.Variable(tf.zeros(SHAPE), use_resource=True) for _ in range(1 + len(rule.slots))]
        weight, *slots = (each.handle for each in made)
        rows = tf.IndexedSlices(tf.zeros((2, SHAPE[1])), tf.constant([0, 1], tf.int64))
        scalars = rule.scalars(tf.constant(0, tf.int64))
        assert scalars["learning_rate"].op.name == "learning_rate"
        rule.apply(weight, slots, rows if sparse else tf.zeros(SHAPE), scalars)
        applied = [
            op for op in graph.get_operations() if op.type.startswith(("ResourceApply", "ResourceScatter"))
        ]
    assert applied
    assert all(op.get_attr("use_locking") for op in applied)


def test_a_rule_of_keras_is_written_between_two_ops() -> None:
    """Below the name of the optimizer, whose first ops wait for what comes before an update."""
    rule = make_optimizer(optimizer_call("Lion(0.1)")).for_weight(WEIGHT, decays=True)
    with tf.Graph().as_default():
        weight, slot = (tf.compat.v1.Variable(tf.zeros(SHAPE), use_resource=True) for _ in range(2))
        ended = rule.apply(
            weight.handle, [slot.handle], tf.zeros(SHAPE), rule.scalars(tf.constant(0, tf.int64))
        )
        names = {op.name for op in ended.graph.get_operations()}
    assert ended.name == "Lion/end"
    assert "Lion/begin" in names


schedules = keras.optimizers.schedules
SCHEDULES: Mapping[str, Any] = {
    "ExponentialDecay(0.5, decay_steps = 6, decay_rate = 0.7)": schedules.ExponentialDecay(0.5, 6, 0.7),
    "ExponentialDecay(1, 6, 0.7, staircase = true)": schedules.ExponentialDecay(1, 6, 0.7, staircase=True),
    "PiecewiseConstantDecay([5, 12], [0.5, 0.2, 0.1])": schedules.PiecewiseConstantDecay(
        [5, 12], [0.5, 0.2, 0.1]
    ),
    "PolynomialDecay(0.5, 12, end_learning_rate = 0.01, power = 2)": schedules.PolynomialDecay(
        0.5, 12, end_learning_rate=0.01, power=2.0
    ),
    "PolynomialDecay(0.5, 6, cycle = true)": schedules.PolynomialDecay(0.5, 6, cycle=True),
    "InverseTimeDecay(0.5, 4, 0.5)": schedules.InverseTimeDecay(0.5, 4, 0.5),
    "CosineDecay(0.5, 12, alpha = 0.1)": schedules.CosineDecay(0.5, 12, alpha=0.1),
    "CosineDecay(0.0, 12, warmup_target = 0.5, warmup_steps = 5)": schedules.CosineDecay(
        0.0, 12, warmup_target=0.5, warmup_steps=5
    ),
    "CosineDecayRestarts(0.5, 4, t_mul = 1.5, m_mul = 0.8, alpha = 0.1)": schedules.CosineDecayRestarts(
        0.5, 4, t_mul=1.5, m_mul=0.8, alpha=0.1
    ),
}


@pytest.mark.family(every=3)
@pytest.mark.parametrize("text", SCHEDULES)
def test_every_schedule_is_keras_own(text: str) -> None:
    """The rate of each step, and where it takes the weights, is what Keras's schedule makes of the step."""
    gradients = dense_gradients()
    expected, _ = keras_own(keras.optimizers.SGD(SCHEDULES[text]), gradients)
    weight, _ = ours(make_optimizer(optimizer_call(f"SGD({text})")), gradients)
    assert weight == pytest.approx(expected, rel=RELATIVE, abs=1e-7)


def test_every_schedule_of_the_language_is_tested() -> None:
    """The table of schedules holds no other than those above, and those are all that Keras has."""
    tested = {text.partition("(")[0] for text in SCHEDULES}
    assert set(signatures.names("schedule")) == tested
    own = {name for name in dir(schedules) if name[0].isupper() and name != "LearningRateSchedule"}
    assert own - {"deserialize", "serialize"} == tested


def test_a_schedule_with_adam_counts_steps_as_keras_does() -> None:
    """Bias correction and rate see the same step count as in Keras, the first update being number 1."""
    gradients = dense_gradients()
    text = "ExponentialDecay(0.1, 5, 0.5)"
    expected, _ = keras_own(keras.optimizers.AdamW(schedules.ExponentialDecay(0.1, 5, 0.5), 0.1), gradients)
    weight, _ = ours(make_optimizer(optimizer_call(f"AdamW({text}, 0.1)")), gradients)
    assert weight == pytest.approx(expected, rel=RELATIVE, abs=1e-8)


def test_what_keras_refuses_is_an_error_at_the_call() -> None:
    """A momentum beyond 1 is reported where the optimizer is written, with Keras's reason.

    Specs that are read from a text are refused before; a program can make others.
    """
    found = refusal_of(
        lambda: make_optimizer(evolve(optimizer_call("SGD(0.1, momentum = 0.5)"), kwargs={"momentum": 1.5}))
    )
    assert (found.code, found.message) == ("TFD507", "`SGD` cannot be made with these arguments")
    assert found.notes == ("`momentum` must be a float between [0, 1]",)
    assert marked(found) == "SGD(0.1, momentum = 0.5)"


ELSEWHERE = {
    "clipnorm = 1.0": "clip = norm(x)",
    "clipvalue = 1.0": "clip = value(x)",
    "global_clipnorm = 1.0": "clip = global_norm(x)",
    "use_ema = true": "ema = 0.99",
    "ema_momentum = 0.9": "ema = 0.99",
    "ema_overwrite_frequency = 10": "ema = 0.99",
    "loss_scale_factor = 2.0": "precision = mixed_float16",
    "gradient_accumulation_steps = 2": "accumulate = 2",
}


@pytest.mark.parametrize("argument", ELSEWHERE)
def test_what_the_update_block_says_is_no_argument_of_an_optimizer(argument: str) -> None:
    """Keras's arguments for clipping, averaging and accumulation name the attribute to write instead.

    A call made without the grammar meets the same error, and is never run without the option.
    """
    reading = grammar.read("a.tfdeploy", [("update.optimizer", f"Adam(1e-3, {argument})")], text=LINE)
    (found,) = reading.diagnostics
    name = argument.partition(" ")[0]
    again = refusal_of(lambda: make_optimizer(ir.Call("Adam", kwargs={name: 1})))
    assert (found.code, found.message) == ("TFD405", f"`Adam` has no argument `{name}`")
    assert found.help == f"write `{ELSEWHERE[argument]}` in the block `update`"
    assert (again.code, again.help) == (found.code, found.help)


@pytest.mark.parametrize(
    ("optimizer", "apart"), [("SGD(0.1)", False), ("Lion(0.1)", False), ("Adam(0.1)", True)]
)
def test_rows_that_a_batch_looks_up_twice(optimizer: str, *, apart: bool) -> None:
    """Their gradients are added up first. Keras squares each by itself if it gets them row by row."""
    words = np.array([1, 1, 2, 1], np.int32)
    targets = np.arange(4, dtype=np.float32).reshape(4, 1)
    model = """
  word = input(int32, [])
  target = input(float32, [1])
  y = word -> Embedding(4, 1, name = "table")
  loss = [target, y] -> MeanSquaredError()
"""
    spec = spec_of(cloned(model, batch=2, update=f"optimizer = {optimizer}"))
    with Training(spec, {"word": words, "target": targets}) as training:
        before = training.values()["table/embeddings"]
        training.steps(2)
        found = training.values()["table/embeddings"]
    name, rate = optimizer.rstrip(")").split("(")

    def by_keras(*, rows: bool) -> Any:
        table = keras.Variable(before)
        rule = getattr(keras.optimizers, name)(float(rate))
        for _ in range(2):
            gradient = 2 / 4 * (table.numpy()[words] - targets)
            sparse = tf.IndexedSlices(gradient, words, before.shape)
            rule.apply([sparse if rows else tf.convert_to_tensor(sparse)], [table])
        return table.numpy()

    np.testing.assert_allclose(found, by_keras(rows=False), atol=1e-5)
    assert np.allclose(found, by_keras(rows=True), atol=1e-5) is not apart
