"""Optimizers as fused apply ops, with Keras's argument names and defaults: one update rule per file."""

from __future__ import annotations

from compiler.graph.optimizers.base import Optimizer, make_optimizer

__all__ = ["Optimizer", "make_optimizer"]
