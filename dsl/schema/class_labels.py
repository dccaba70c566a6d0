"""What losses and metrics of Keras for classes compare with: numbers of classes, or one-hot targets."""

from __future__ import annotations

_OF_NUMBERS = ("CategoricalGeneralizedCrossEntropy",)


def takes_class_numbers(name: str) -> bool:
    """Whether the targets of a loss or metric are numbers of classes."""
    return name.startswith("Sparse") or name in _OF_NUMBERS


def takes_one_hot(name: str) -> bool:
    """Whether the targets of a loss or metric are one-hot, or shares of all classes."""
    return name.startswith(("Categorical", "TopKCategorical")) and name not in _OF_NUMBERS
