"""Adadelta (Zeiler, 2012)."""

from __future__ import annotations

from attrs import frozen

from compiler.graph.optimizers.base import Optimizer


@frozen
class Adadelta(Optimizer):
    """Steps by the ratio of the root mean squares of past changes and of gradients.

    a <- rho a + (1-rho) g^2; d = g sqrt(u + epsilon) / sqrt(a + epsilon); u <- rho u + (1-rho) d^2;
    w <- w - rate d.
    """

    SLOTS = ("Adadelta", "Adadelta_1")
    KERNEL = "ResourceApplyAdadelta"
    OPERANDS = ("accum", "accum_update")
    NUMBERS = ("rho", "epsilon")
