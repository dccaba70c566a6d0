"""Optimizers with Keras's argument names, defaults and arithmetic: one update rule per file."""

from __future__ import annotations

from compiler.graph.optimizers.base import Optimizer
from compiler.graph.optimizers.groups import UpdateRules
from compiler.graph.optimizers.making import make_groups, make_optimizer

__all__ = ["Optimizer", "UpdateRules", "make_groups", "make_optimizer"]
