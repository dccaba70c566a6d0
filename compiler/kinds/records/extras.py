"""What can be asked for beside the map of many clones, which takes somewhat longer."""

from __future__ import annotations

from attrs import frozen


@frozen
class Extras:
    """What is wanted beside the map.

    Attributes:
        graph: The ops of a step and the tensors between them, which are drawn.
        costs: What each op of a step costs. If the time of a step is forecast, this is known anyway.
    """

    graph: bool = False
    costs: bool = False


NO_EXTRAS = Extras()
