"""How the tests of sources open a split and read it, in graphs and sessions as training does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.source import Source, Span
from tfdeploy.data import Field, Stream, StreamOptions, open_split


def make_call(name: str, args: tuple[ir.Value, ...], kwargs: dict[str, ir.Value]) -> ir.Call:
    """Return the call as the reader of specs would, all of it spanning `name(...)`."""
    text = f"{name}(...)"
    span = Span(Source("spec.tfdeploy", text), 0, len(text))
    return ir.Call(
        name,
        args,
        kwargs,
        span=span,
        name_span=span,
        arg_spans=(span,) * len(args),
        kwarg_spans=dict.fromkeys(kwargs, span),
    )


class Reader:
    """Opens splits whose files lie in `base`, and reads them."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def call(self, name: str, /, *args: ir.Value, **kwargs: ir.Value) -> ir.Call:
        """Return a call of a source, transform or feature."""
        return make_call(name, args, kwargs)

    def open(
        self,
        source: ir.Call,
        *transforms: ir.Call,
        wanted: dict[str, tuple[str, tuple[int, ...]]],
        **options: Any,
    ) -> Stream:
        """Open a split; `wanted` gives dtype and shape of each input of the model."""
        split = ir.Split("train", source, transforms)
        inputs = [Field(name, dtype, shape) for name, (dtype, shape) in wanted.items()]
        return open_split(split, inputs, StreamOptions(self.base, **options))

    def batches(
        self,
        stream: Stream,
        size: int,
        *,
        repeat: bool = False,
        drop_remainder: bool = False,
        most: int = 1000,
    ) -> list[dict[str, np.ndarray]]:
        """Return up to `most` batches."""
        return run(
            lambda: stream.batches(size, repeat=repeat, drop_remainder=drop_remainder),
            most,
        )

    def single(self, stream: Stream, most: int = 10000) -> list[dict[str, np.ndarray]]:
        """Return up to `most` examples of one pass."""
        batches = self.batches(stream, 1, most=most)
        return [{name: batch[name][0] for name in batch} for batch in batches]

    def column(self, stream: Stream, name: str, size: int = 4, **how: Any) -> list[Any]:
        """Return the values of tensor `name`, batch after batch, as Python values."""
        batches = self.batches(stream, size, **how)
        return [value for batch in batches for value in batch[name].tolist()]

    def fault(self, source: ir.Call, *transforms: ir.Call, **options: Any) -> Diagnostic:
        """Return the fault of data, wherever it shows: on opening, on checking, or after reading failed."""
        try:
            stream = self.open(source, *transforms, **options)
            stream.check()
        except RunError as error:
            return error.diagnostic
        return self.explained(stream).diagnostic

    def explained(self, stream: Stream) -> RunError:
        """Read all of `stream`, which must fail, and return the explanation."""
        with pytest.raises((tf.errors.OpError, UnicodeDecodeError)) as caught:
            self.batches(stream, 64)
        explained = stream.explain(caught.value)
        assert explained is not None
        return explained


def run(make: Callable[[], Any], most: int) -> list[dict[str, np.ndarray]]:
    """Read a dataset as training does: in a graph, under a device scope, with an initializable iterator."""
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        iterator = tf.compat.v1.data.make_initializable_iterator(make())
        following = iterator.get_next()
        found = []
        with tf.compat.v1.Session(config=unoptimised()) as session:
            session.run(iterator.initializer)
            try:
                while len(found) < most:
                    found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                pass
        return found


def unoptimised() -> Any:
    """Return the options with which training on CPUs runs a graph: as it is, which saves time."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return config


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Give a reader of files in a folder of the test's own."""
    return Reader(tmp_path)


@pytest.fixture
def numbers(tmp_path: Path, reader: Reader) -> Callable[..., Stream]:
    """Give a function that opens a CSV file of the numbers 0 to 99, with transforms and options."""
    (tmp_path / "numbers.csv").write_text("n\n" + "".join(f"{each}\n" for each in range(100)))

    def opened(*transforms: ir.Call, **options: Any) -> Stream:
        source = reader.call("csv", "numbers.csv", n="n")
        return reader.open(source, *transforms, wanted={"n": ("int32", ())}, **options)

    return opened
