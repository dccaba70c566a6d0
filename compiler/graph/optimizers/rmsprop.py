"""RMSprop (Tieleman and Hinton, 2012), plain, centred and with momentum."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from compiler.graph.optimizers.base import Optimizer


@frozen
class RMSprop(Optimizer):
    """s <- rho s + (1-rho) g^2; v <- momentum v + rate g / sqrt(s + epsilon); w <- w - v."""

    SLOTS: ClassVar[tuple[str, ...]] = ("RMSProp", "RMSProp_1")  # v is kept even if there is no momentum
    KERNEL = "ResourceApplyRMSProp"
    OPERANDS: ClassVar[tuple[str, ...]] = ("ms", "mom")
    NUMBERS = ("rho", "momentum", "epsilon")


@frozen
class CentredRMSprop(RMSprop):
    """RMSprop by which the square of the mean gradient a is subtracted from s in the root.

    a <- rho a + (1-rho) g.
    """

    SLOTS = ("RMSProp", "RMSProp_1", "RMSProp_2")
    KERNEL = "ResourceApplyCenteredRMSProp"
    OPERANDS = ("ms", "mom", "mg")
