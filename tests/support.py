"""What several tests need: specs from text, small models, and training them on arrays."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import pytest
import tensorflow as tf

import grammar
from compiler.graph.build import compile_step
from compiler.graph.finished import Finished, in_graph
from compiler.graph.ledger import Ledger
from compiler.graph.session_options import session_config
from compiler.graph.variables.nodes import assign, read_saved
from compiler.pipeline import make_plan
from compiler.plan import Plan
from compiler.reasons import Placed, Reason
from compiler.step.record import Rows, Tensor
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError, SpecError
from tfdeploy.runtime.adapted import adapted
from tfdeploy.runtime.records.result import Result, Seconds

CLASSIFIER = """
tfdeploy = 1

model "classifier" {{
  image = input(float32, [8, 8, 1])
  digit = input(int32, [])
  logits = image {layers} -> Flatten() -> Dense(10, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics {{
    accuracy = [digit, logits] -> SparseCategoricalAccuracy()
  }}
}}

devices {{ cpu = {clones} }}
clones {{ count = {clones}, batch = {batch} }}
update {{ optimizer = {optimizer} }}
train {{ seed = 7 }}
"""

CONVOLUTION = '-> Conv2D(8, 3, activation = relu, name = "conv1") -> MaxPooling2D(2)'


def classifier(
    *,
    clones: int = 2,
    batch: Any = 8,
    optimizer: str = "SGD(0.1)",
    layers: str = CONVOLUTION,
    **overrides: str,
) -> ir.Spec:
    """Return the spec of a small classifier of 8 x 8 images; `update__ema="0.9"` sets `update.ema`."""
    written = list(batch) if isinstance(batch, tuple) else batch
    text = CLASSIFIER.format(clones=clones, batch=written, optimizer=optimizer, layers=layers)
    return spec_of(text, **overrides)


def spec_of(text: str, **overrides: str) -> ir.Spec:
    """Return the spec of a text, every keyword being an override (`clones__batch="4"` for `clones.batch`).

    It may use Python, which is beside it in the folder that a graph is made with as `base`.
    """
    pairs = [(key.replace("__", "."), value) for key, value in overrides.items()]
    reading = grammar.read("test.tfdeploy", pairs, text=text, allow_python=True)
    assert reading.spec is not None, [f"{each.code} {each.message}" for each in reading.diagnostics]
    return reading.spec


def cloned(
    model: str,
    clones: int | None = 2,
    *,
    batch: Any = 4,
    devices: int | str | None = None,
    place: str = "",
    update: str = "optimizer = SGD(0.1)",
    seed: int = 3,
) -> str:
    """Return the text of a spec with a block `model` of these lines.

    Its clones are on processors, unless `devices` has the lines of that block. Without a number of clones it
    follows from the devices.
    """
    written = list(batch) if isinstance(batch, tuple) else batch
    blocks = {
        "devices": devices if isinstance(devices, str) else f"cpu = {devices or clones}",
        "clones": f"batch = {written}" if clones is None else f"count = {clones}, batch = {written}",
        **({"place": place} if place else {}),
        "update": update,
        "train": f"seed = {seed}",
    }
    ends = "".join(f"{name} {{ {each} }}\n" for name, each in blocks.items())
    return f'tfdeploy = 1\nmodel "m" {{\n{model}}}\n{ends}'


def refusal(call: Callable[..., object], *arguments: Any, **named: Any) -> Any:
    """Return the diagnostic with which a call is refused."""
    with pytest.raises(RunError) as caught:
        call(*arguments, **named)
    return caught.value.diagnostic


def make_result(**more: Any) -> Result:
    """Return the result of a run."""
    given = {"status": "finished", "steps": 20, "loss": 0.5, "metrics": {}, "examples_per_second": None}
    return Result(**{**given, "seconds": Seconds(1.0, None, 2.0), "directory": "runs/x", **more})  # type: ignore[arg-type]


def examples(count: int, seed: int = 0) -> dict[str, Any]:
    """Return `count` random examples for the classifier."""
    generator = np.random.default_rng(seed)
    return {
        "image": generator.random((count, 8, 8, 1), dtype=np.float32),
        "digit": generator.integers(0, 10, count).astype(np.int32),
    }


class Drafted:
    """A graph that a test writes with functions of the compiler, in a `with` block.

    Within it, records go into `ledger`, and what functions of TensorFlow make into a graph of its own, whose
    tensors `compiler.graph.fragments.recorded` describes. After it, `graph` is made of both, and `found`
    returns what their values are there. A further block adds to them.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.ledger, self.given = plan, Ledger(plan), tf.Graph()
        self.homes = [Placed(tower.device, Reason("test", "default")) for tower in plan.towers]
        self._writing: Any = None
        self._finished: Finished | None = None

    def __enter__(self) -> Self:
        self._finished, self._writing = None, self.given.as_default()
        self._writing.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._writing.__exit__(*error)

    @property
    def finished(self) -> Finished:
        """What has been written, as a graph."""
        if self._finished is None:
            import tensorflow as tf

            from compiler.graph.finished import Finished
            from compiler.graph.nodes import import_nodes

            graph, whole = tf.Graph(), self.given.as_graph_def(add_shapes=True)
            whole.MergeFrom(self.ledger.graph_def())
            import_nodes(graph, whole)
            self._finished = Finished(graph)
        return self._finished

    @property
    def graph(self) -> tf.Graph:
        """The graph that is made of the draft."""
        return self.finished.graph

    def found(self, value: Any) -> Any:
        """Return what tensors, rows, ops, variables, or records of them are in the graph."""
        if isinstance(value, Tensor):
            return self.graph.get_tensor_by_name(value.name)
        if isinstance(value, (tf.IndexedSlices, Rows)):
            return tf.IndexedSlices(self.found(value.values), self.found(value.indices))
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.found, value))
        if isinstance(value, dict):
            return {key: self.found(each) for key, each in value.items()}
        return self.finished.of(value)

    def op(self, name: str) -> Any:
        """Return an op of the graph."""
        return self.graph.get_operation_by_name(name)

    def session(self) -> tf.compat.v1.Session:
        """Return a session of the graph."""
        return tf.compat.v1.Session(graph=self.graph, config=session_config(self.plan))

    def run(self, value: Any) -> Any:
        """Return the values of tensors and rows of the draft."""
        with self.session() as session:
            return session.run(self.found(value))


class Training:
    """A compiled spec in a session, fed from arrays in their order, again and again.

    In place of arrays there may be a function that returns the batches of a size. With `adapt`, its layers
    learn from its own data before. With `change`, more is written into its step before there is a graph.
    """

    def __init__(
        self,
        spec: ir.Spec,
        arrays: Mapping[str, Any] | Callable[[int], Any],
        *,
        emulate: bool = False,
        base: str = ".",
        adapt: bool = False,
        change: Callable[[Any], Any] = lambda compiled: compiled,
    ) -> None:
        plan = make_plan(spec, emulate=emulate)
        step = compile_step(adapted(plan) if adapt else plan, base=base)
        self.compiled = in_graph(change(step))
        batch = self.compiled.train_input.size or 0

        def batches() -> Any:
            if callable(arrays):
                return arrays(batch)
            return tf.data.Dataset.from_tensor_slices(dict(arrays)).repeat().batch(batch, drop_remainder=True)

        start = self.compiled.train_input.attach(batches)
        self.session = tf.compat.v1.Session(
            graph=self.compiled.graph, config=session_config(self.compiled.plan)
        )
        self.session.run(self.compiled.init_op)
        self.start = start
        self.session.run(start)

    def restart(self) -> Self:
        """Give all variables their first values again, and begin the examples again."""
        self.session.run(self.compiled.init_op)
        self.session.run(self.start)
        return self

    def steps(self, count: int) -> list[float]:
        """Do `count` steps; return the total loss before each."""
        fetches = [self.compiled.total_loss, self.compiled.train_op]
        return [float(self.session.run(fetches)[0]) for _ in range(count)]

    def traced(self, fetches: Any = None) -> Any:
        """Do a step, or something else; return what TensorFlow records of ops and graphs of devices."""
        metadata = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(
            trace_level=tf.compat.v1.RunOptions.FULL_TRACE, output_partition_graphs=True
        )
        wanted = self.compiled.train_op if fetches is None else fetches
        self.session.run(wanted, options=options, run_metadata=metadata)
        return metadata

    def evaluated(self, arrays: Mapping[str, Any], fetches: Any) -> Any:
        """Return tensors of the evaluation of all examples."""
        pipe = self.compiled.evaluation.pipe
        self.session.run(pipe.attach(lambda: tf.data.Dataset.from_tensors(dict(arrays))))
        return self.session.run(fetches)

    def values(self) -> dict[str, Any]:
        """Return every variable of a checkpoint by name."""
        return read_saved(self.session.run, self.compiled.saved)

    def assign(self, values: Mapping[str, Any]) -> None:
        """Give variables of a checkpoint new values, and copies of them too."""
        assign(self.session.run, self.compiled.saved, values)
        self.session.run(self.compiled.after_restore_op)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()


def ops_before(op: Any) -> set[str]:
    """Return the names of all ops that are over before an op of a graph begins."""
    seen: set[str] = set()
    pending = [op]
    while pending:
        each = pending.pop()
        for cause in (*(tensor.op for tensor in each.inputs), *each.control_inputs):
            if cause.name not in seen:
                seen.add(cause.name)
                pending.append(cause)
    return seen


def rounding(terms: int, steps: int = 1) -> float:
    """Return how far apart float32 sums of `terms` terms can be, relatively, that are added in other orders.

    Processors and numbers of threads differ in that order. Each addition is off by at most half of 2**-23, up
    or down as it comes, so the error grows with the root of their number; four times that is room enough. It
    adds up over `steps` of training.
    """
    return steps * 4 * 2.0**-24 * terms**0.5


def largest_difference(values: Mapping[str, Any], reference: Mapping[str, Any]) -> float:
    """Return the largest difference between two sets of variables, relative to each one's largest element."""
    assert values.keys() == reference.keys()
    return max(
        float(np.max(np.abs(values[name] - reference[name])) / (np.max(np.abs(reference[name])) + 1e-12))
        for name in reference
    )


def ir_of(text: str) -> ir.Spec:
    """Return the spec in a text that `show --json` has written; it has no places."""

    def record(written: Any) -> Any:
        if isinstance(written, list):
            return tuple(map(record, written))
        if not isinstance(written, dict):
            return written
        fields = {name: record(each) for name, each in written.items() if name != "node"}
        return getattr(ir, written["node"])(**fields) if "node" in written else fields

    spec: ir.Spec = record(json.loads(text)["spec"])
    return spec


def refusal_of(action: Callable[[], object]) -> Diagnostic:
    """Return the only diagnostic with which an action refuses a spec."""
    with pytest.raises(SpecError) as caught:
        action()
    (found,) = caught.value.diagnostics
    return found


def marked(found: Diagnostic) -> str:
    """Return the text of a spec at which a diagnostic points; nothing if it has no place."""
    return "" if found.span is None else found.span.text
