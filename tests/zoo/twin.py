"""A model of the zoo in plain Keras: what `test_zoo` needs to train it beside the spec."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
from attrs import field, frozen


@frozen
class Twin:
    """A Keras model with its losses.

    Attributes:
        model: The model. Its inputs and its layers with weights have the names of those of the spec, with `_`
            in place of `/`.
        losses: The Keras losses, one for each output of the model; none if a layer adds the loss.
        targets: The names of the tensors of the data that the losses compare with the outputs.
        cut: For a target that is part of a tensor, what cuts it out.
        weights: The factors of the losses.
        predictor: The model whose output is that of the spec; `model` itself without it.
        inside: The name of a model inside the model; Keras leaves it out of the names of its weights.
        frozen: How the names of weights begin that training does not change.
    """

    model: keras.Model
    losses: Sequence[Any] = ()
    targets: Sequence[str] = ()
    cut: Callable[[Any], Any] = lambda target: target
    weights: Sequence[float] | None = None
    predictor: keras.Model | None = field(default=None)
    inside: str = ""
    frozen: tuple[str, ...] = ()

    def variables(self) -> dict[str, Any]:
        """Return the variables by their names in the spec, with `_` or `/` between the parts."""
        inner = self.model.get_layer(self.inside).weights if self.inside else []
        found = {f"{self.inside}/{each.path}": each for each in inner}
        own = {id(each) for each in inner}
        found |= {each.path: each for each in self.model.weights if id(each) not in own}
        return {path: each for path, each in found.items() if "seed_generator" not in path}

    def train_on_batch(self, arrays: Mapping[str, Any], rate: float, *, eagerly: bool = True) -> float:
        """Do one step of SGD on a batch, and return the loss before it.

        Args:
            arrays: The batch, by the names of the inputs and targets.
            rate: The learning rate.
            eagerly: Whether each op is run by itself, and not in a graph of the step as Keras does otherwise.

        Returns:
            The loss.
        """
        if self.losses:
            self.model.compile(
                keras.optimizers.SGD(rate),
                list(self.losses) if len(self.losses) > 1 else self.losses[0],
                loss_weights=self.weights,
                run_eagerly=eagerly,
            )
            targets = [self.cut(arrays[each]) for each in self.targets]
            result = self.model.train_on_batch(
                inputs_of(self.model, arrays), targets if len(targets) > 1 else targets[0]
            )
        else:
            self.model.compile(keras.optimizers.SGD(rate), run_eagerly=eagerly)
            result = self.model.train_on_batch(inputs_of(self.model, arrays))
        return float(result[0] if isinstance(result, list) else result)

    def predict(self, arrays: Mapping[str, Any]) -> Any:
        """Return what the model predicts for a batch."""
        return predictions(self.predictor or self.model, arrays)


Maker: TypeAlias = Callable[[], Twin]
CLASSES = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def inputs_of(model: keras.Model, arrays: Mapping[str, Any]) -> Any:
    """Return the inputs of a model for a batch: one array, or a list of them."""
    found = [arrays[each.name] for each in model.inputs]
    return found if len(found) > 1 else found[0]


def predictions(model: keras.Model, arrays: Mapping[str, Any]) -> Any:
    """Return what a Keras model predicts for a batch."""
    model.run_eagerly = True
    return model.predict_on_batch(inputs_of(model, arrays))
