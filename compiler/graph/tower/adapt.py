"""What layers learn from data before training, as Keras's `adapt` computes it, but batch by batch.

A layer learns from the tensor that reaches it. The layers before it have no weights, so that this tensor
depends only on the examples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.graph.adapters.keras_private import first_word_index, lookup_of, words_of
from compiler.graph.tower.network.keras_scope import own_names, stateless
from compiler.graph.tower.network.network import Network, make_layer
from compiler.graph.tower.network.operations import for_each_example
from compiler.graph.tower.trace import SEED_STATE
from compiler.model.graph import CallNode, InputNode, LayerNode, ModelGraph
from compiler.model.layer_state import State, split_of
from dsl.diagnostics import SpecError
from dsl.errors import layers as errors

Fetched: TypeAlias = Any  # an array, or a tuple of the words and the ends of the rows of ragged text


@frozen
class Adaptation:
    """One layer that is to learn from a split."""

    model: ModelGraph = field(repr=False)  # the model, in which earlier layers have what they have learnt
    node: LayerNode
    call: CallNode
    base: str

    @classmethod
    def of(cls, model: ModelGraph, node: LayerNode, base: str) -> Adaptation:
        """Return how a layer of a model learns.

        Raises:
            SpecError: It is used more than once or gets several tensors, or there are weights before it.
        """
        calls = [each for each in model.calls if model.layers[each.layer] is node]
        if len(calls) != 1 or len(calls[0].inputs) != 1:
            reason = f"it is used {len(calls)} times" if len(calls) != 1 else "it gets several tensors"
            raise SpecError([errors.cannot_adapt_here(node.span, layer=node.call.name, reason=reason)])
        return cls(model, node, calls[0], base)

    @property
    def split(self) -> str:
        """The name of the split."""
        return split_of(self.node) or ""

    @property
    def before(self) -> list[CallNode]:
        """The calls on which the tensor that reaches the layer depends, in their order."""
        needed, found = set(self.call.inputs), []
        for each in reversed(self.model.calls):
            if not needed.isdisjoint(each.values):
                needed.update(each.inputs)
                found.append(each)
        return found[::-1]

    @property
    def inputs(self) -> list[InputNode]:
        """The inputs of the model on which that tensor depends."""
        needed = {value for each in (*self.before, self.call) for value in each.inputs}
        return [each for each in self.model.inputs if each.value in needed]

    def learn(self, examples: Mapping[str, tf.Tensor], run: Callable[[Any], Iterable[Fetched]]) -> State:
        """Return what the layer learns. To be called in the graph of the examples.

        Raises:
            SpecError: There are weights before the layer, or it cannot learn from the examples.
        """
        call = self.node.call
        plain = evolve(call, kwargs={key: each for key, each in call.kwargs.items() if key != "adapt"})
        with stateless(), own_names():
            reaching = self._reaching(examples)
            layer = make_layer(evolve(self.node, call=plain), self.base)
            pupil = _pupil(layer, reaching)
            for each in run(pupil.wanted):
                pupil.see(each)
        state = pupil.state()
        if isinstance(state, str):
            raise SpecError(
                [errors.nothing_learnt(self.node.span, layer=call.name, split=self.split, reason=state)]
            )
        return state

    def _reaching(self, examples: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the tensor that reaches the layer."""
        numbers = sorted({each.layer for each in self.before})
        network = Network(self.model, [None] * len(self.model.layers))
        for number in numbers:
            network.layers[number] = make_layer(self.model.layers[number], self.base, towers=True)
        values = {each.value: examples[each.name] for each in self.inputs}
        count = tf.shape(next(iter(values.values())))[0]
        heavy: list[str] = []
        for each in self.before:
            given = network.gathered(each, values, lambda value: for_each_example(values[value], count))
            made = network.apply(each, given, training=False)
            values.update(zip(each.values, tf.nest.flatten(made), strict=True))
            variables = getattr(network.layers[each.layer], "variables", ())
            if any(variable.name != SEED_STATE for variable in variables):
                heavy.append(self.model.layers[each.layer].path)
        if heavy:
            names = dict.fromkeys(heavy)
            raise SpecError(
                [errors.weights_before_adapt(self.node.span, layer=self.node.call.name, before=names)]
            )
        return values[self.call.inputs[0]]


def _pupil(layer: keras.Layer, reaching: tf.Tensor) -> _Statistics | _Bins | _Words:
    if isinstance(layer, keras.layers.Normalization):
        layer.build(reaching.shape)
        return _Statistics(reaching, tuple(sorted(axis % reaching.shape.rank for axis in layer.axis)))
    if isinstance(layer, keras.layers.Discretization):
        return _Bins(reaching, layer)
    if isinstance(layer, keras.layers.TextVectorization):
        words, lookup = words_of(layer, reaching), lookup_of(layer)
        if isinstance(words, tf.RaggedTensor):
            return _Words((words.flat_values, words.row_splits), lookup)
        return _Words(words, lookup)
    return _Words(
        tf.cast(reaching, layer.vocabulary_dtype) if reaching.dtype != tf.string else reaching, layer
    )


@define
class _Statistics:
    """Mean and variance over all axes but some, merged in double precision (Chan, Golub, LeVeque, 1979)."""

    wanted: tf.Tensor
    kept: tuple[int, ...]
    count: int = 0
    mean: Any = 0.0
    squares: Any = 0.0  # the sum of the squared distances from the mean

    def see(self, batch: np.ndarray[Any, Any]) -> None:
        numbers = batch.astype(np.float64)
        axes = tuple(axis for axis in range(numbers.ndim) if axis not in self.kept)
        with np.errstate(invalid="ignore"):  # `state` says so if there are numbers that are not finite
            count, mean = math.prod(numbers.shape[axis] for axis in axes), numbers.mean(axes)
            far = mean - self.mean
            both = self.count + count
            self.squares += numbers.var(axes) * count + far**2 * (self.count * count / both)
            self.mean, self.count = self.mean + far * (count / both), both

    def state(self) -> State | str:
        found = {"mean": self.mean, "variance": self.squares / self.count}
        if not all(np.isfinite(each).all() for each in found.values()):
            return "there are numbers among its examples that are not finite"
        return {name: _plain(np.asarray(each, np.float32)) for name, each in found.items()}


@define
class _Bins:
    """Quantiles, as Keras estimates them."""

    wanted: tf.Tensor
    layer: keras.layers.Discretization

    def see(self, batch: np.ndarray[Any, Any]) -> None:
        self.layer.update_state(batch)

    def state(self) -> State | str:
        self.layer.finalize_state()
        found = self.layer.bin_boundaries
        if not found or not np.isfinite(found).all():
            return "its examples have no quantiles"
        return {"bin_boundaries": _plain(np.asarray(found, np.float32))}


@define
class _Words:
    """The most frequent words; of equally frequent ones, those that come last in their order, as in Keras."""

    wanted: Any
    lookup: Any
    counts: Counter[Any] = field(factory=Counter)
    documents: Counter[Any] = field(factory=Counter)  # in how many documents each word is
    seen: int = 0  # documents

    def see(self, batch: Fetched) -> None:
        if isinstance(batch, tuple):
            words, ends = batch
            rows = [words[first:last].tolist() for first, last in pairwise(ends)]
            self.counts.update(words.tolist())
        else:
            rows = batch.reshape(len(batch), -1).tolist()
            self.counts.update(batch.ravel().tolist())
        if self.lookup.output_mode == "tf_idf":
            self.seen += len(rows)
            for row in rows:
                self.documents.update(set(row))

    def state(self) -> State | str:
        lookup = self.lookup
        for special in (lookup.mask_token, lookup.oov_token):
            self.counts.pop(special.encode() if isinstance(special, str) else special, None)
        most = lookup.max_tokens - first_word_index(lookup) if lookup.max_tokens else None
        order = sorted(self.counts, key=lambda word: (self.counts[word], word), reverse=True)[:most]
        if not order:
            return "there are no words in its examples"
        try:
            words = tuple(word.decode() if isinstance(word, bytes) else word for word in order)
        except UnicodeDecodeError:
            return "there is a word in its examples that is not UTF-8"
        if lookup.output_mode != "tf_idf":
            return {"vocabulary": words}
        weights = [math.log(1 + self.seen / (1 + self.documents[word])) for word in order]
        return {"vocabulary": words, "idf_weights": _plain(np.asarray(weights, np.float32))}


def _plain(numbers: Any) -> Any:
    """Return an array as nested tuples of Python's numbers."""
    array = np.asarray(numbers)
    return float(array) if array.ndim == 0 else tuple(_plain(each) for each in array)
