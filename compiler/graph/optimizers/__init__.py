"""Optimizers with Keras's argument names, defaults and arithmetic: one update rule per file."""

from __future__ import annotations

from compiler.graph.optimizers.base import Optimizer
from compiler.graph.optimizers.making import make_optimizer

__all__ = ["Optimizer", "make_optimizer"]
