"""Objects of a model as a user writes them, some of which fail."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN003, ANN201, ANN204, D101, D102, D103

import keras
from keras import ops


def focal(target, prediction, gamma=2.0):
    chances = ops.softmax(prediction)
    p = ops.take_along_axis(chances, ops.cast(target, "int32")[:, None], axis=-1)[:, 0]
    return -((1 - p) ** gamma) * ops.log(p)


class Size(keras.losses.Loss):
    def __init__(self, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, y_true, y_pred):
        del y_true
        return self.factor * ops.mean(ops.square(y_pred), axis=-1)


def right(target, prediction):
    return ops.cast(ops.cast(ops.argmax(prediction, -1), "int32") == ops.cast(target, "int32"), "float32")


class Hits(keras.metrics.Metric):
    def __init__(self, name="hits", initializer="zeros", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_weight(name="total", initializer=initializer)

    def update_state(self, y_true, y_pred, sample_weight=None):
        del sample_weight
        self.total.assign_add(ops.sum(right(y_true, y_pred)))

    def result(self):
        return self.total


class Best(Hits):
    def update_state(self, y_true, y_pred, sample_weight=None):
        del y_true, sample_weight
        self.total.assign(ops.maximum(self.total, ops.max(ops.abs(y_pred))))


def FromOne():  # noqa: N802
    return Hits(initializer="ones")


def small(shape, dtype=None, scale=0.2):
    return keras.random.normal(shape, stddev=scale, dtype=dtype, seed=3)


class Cubes(keras.regularizers.Regularizer):
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * ops.sum(ops.abs(x) ** 3)

    def get_config(self):
        return {"factor": self.factor}


def between(weight, low=-1.0, high=0.3):
    return ops.clip(weight, low, high)


def wave(x, speed=2.0):
    return ops.sin(speed * x)


class Inner(keras.layers.Layer):
    """A layer with layers inside and a loss of its own."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense = keras.layers.Dense(units)
        self.norm = keras.layers.BatchNormalization()
        self.drop = keras.layers.Dropout(0.0)

    def build(self, shape):
        self.dense.build(shape)
        self.norm.build((*shape[:-1], self.units))
        self.built = True

    def call(self, x, training=None):
        y = self.dense(x)
        self.add_loss(0.1 * ops.mean(ops.square(y)))
        return self.drop(self.norm(y, training=training), training=training)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def net(width):
    x = keras.Input((4,))
    y = Inner(width, name="inner")(x)
    more = keras.Sequential([keras.layers.Dense(5, kernel_regularizer="l2"), keras.layers.ReLU()])
    return keras.Model(x, {"second": y, "first": more(y)})


def two():
    a, b = keras.Input((4,), name="z"), keras.Input((3,), name="a")
    joined = keras.layers.Concatenate()([a, b])
    return keras.Model({"z": a, "a": b}, [keras.layers.Dense(3)(joined), keras.layers.Rescaling(2.0)(b)])


def failing_build():
    raise RuntimeError("not today")


class FailingCall(keras.layers.Layer):
    def call(self, x):
        return x[0, 0, 0]


def failing(x, dtype=None):
    del x, dtype
    raise KeyError("wrong")


def failing_loss(target, prediction):
    del prediction
    return target.shape.no_such_thing


class Around(keras.layers.Layer):
    """A layer that is given another one."""

    def __init__(self, inner, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.inner = inner
        self.factor = factor

    def build(self, input_shape):
        self.inner.build(input_shape)
        super().build(input_shape)

    def call(self, x):
        return self.factor * self.inner(x)
