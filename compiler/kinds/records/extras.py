"""What is made of many clones beside their map, which takes somewhat longer."""

from __future__ import annotations

from attrs import frozen


@frozen
class Extras:
    """What is wanted beside the map.

    Attributes:
        graph: The ops of a step and the tensors between them, which are drawn.
        costs: What each op of a step costs. If the time of a step is forecast, this is known anyway.
        time: The forecast of the time of a step, if something is known to make it from. Without it, the costs
            are still those from which it can be made.
    """

    graph: bool = False
    costs: bool = False
    time: bool = True


NO_EXTRAS = Extras()
