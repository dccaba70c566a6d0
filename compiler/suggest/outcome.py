"""What placements come to, found out only as far as a comparison needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from attrs import define, field

from compiler.kinds.records.kind_map import AnyMap
from compiler.suggest.figures import Figures, Goal, NoForecastError, least_time
from compiler.time.costs import Costs
from compiler.time.forecast import StepForecast, forecast_of, seconds_of
from compiler.time.simulation.prepared import PreparedStep, prepare
from compiler.time.simulation.simulate import simulate_until
from compiler.time.simulation.simulated import Simulated
from compiler.time.work import StepWork

WORTH = 0.999
"""A placement is better if it comes to less than this part of the other one."""


@define(eq=False)
class Outcome:
    """What a placement comes to.

    Attributes:
        work: The work of a step, or None if its time cannot be forecast.
        costs: What its ops cost, or None if that is not known.
        make_map: Makes its map.
    """

    work: StepWork | None = field(repr=False)
    costs: Costs | None = field(repr=False)
    make_map: Callable[[], AnyMap] = field(repr=False)
    _step: PreparedStep | None = field(default=None, repr=False)
    _simulated: Simulated | None = field(default=None, repr=False)
    _time: StepForecast | None = field(default=None, repr=False)
    _placement: AnyMap | None = field(default=None, repr=False)
    _sizes: Figures | None = field(default=None, repr=False)
    _figures: Figures | None = field(default=None, repr=False)
    _least: float | None = None
    _beyond: float = -inf  # the step is known to take longer than this

    @property
    def placement(self) -> AnyMap:
        """Its map."""
        if self._placement is None:
            self._placement = self.make_map()
        return self._placement

    @property
    def time(self) -> StepForecast | None:
        """The forecast of a step, or None if there is none."""
        if self._time is None and self.work is not None and self.costs is not None:
            self._seconds(inf)
            assert self._simulated is not None
            self._time = forecast_of(self.work, self.costs, self._simulated)
        return self._time

    @property
    def figures(self) -> Figures:
        """All of its figures; always the same record."""
        if self._figures is None:
            self._figures = Figures.of(self.placement, self.time)
        return self._figures

    @property
    def missing(self) -> int:
        """The bytes by which devices are too small, all together."""
        return self._of_map.missing

    @property
    def least(self) -> float:
        """A time that the step is not below, in seconds; 0 if none is known."""
        if self._least is None:
            timed = self.work is not None and self.costs is not None and not self.work.loops
            self._least = least_time(self._prepared()) if timed else 0.0
        return self._least

    def value(self, goal: Goal, limit: float = inf) -> float:
        """Return the figure that a goal is about, or infinity if it is certain that it is above a limit.

        Raises:
            NoForecastError: The goal is the time of a step, of which there is no forecast.
        """
        return self._seconds(limit) if goal is Goal.STEP_TIME else self._of_map.value(goal)

    @property
    def _of_map(self) -> Figures:
        """The figures without those of time."""
        if self._sizes is None:
            self._sizes = self._figures or Figures.of(self.placement, None)
        return self._sizes

    def _prepared(self) -> PreparedStep:
        """Return the step with its costs.

        Raises:
            NoForecastError: It has none.
        """
        if self._step is None:
            if self.work is None or self.costs is None:
                raise NoForecastError
            self._step = prepare(self.work, self.costs)
        return self._step

    def _seconds(self, limit: float) -> float:
        step = self._prepared()
        if self._simulated is None:
            if self._beyond >= limit or self.least > limit:
                return inf
            loops = bool(step.work.loops)  # the time of an update is not that of the whole simulation
            around = 0.0 if loops else step.costs.step_start
            self._simulated = simulate_until(step, inf if loops else limit - around)
            if self._simulated is None:
                self._beyond = limit
                return inf
        return seconds_of(step.work, step.costs, self._simulated)


def best_of(known: Outcome, others: Sequence[Outcome], goal: Goal, *, limited: bool = True) -> Outcome:
    """Return the best of some placements.

    It lacks the least memory, and comes to the least of those that lack as much. Differences of less than a
    thousandth do not count: the one that is known stays, or the first of the others is taken.

    The placements whose steps may be shortest are simulated first, and the simulations of others end as soon
    as it is certain that they are worse.

    Args:
        known: The best placement so far.
        others: Other placements of the same spec.
        goal: What is to be low.
        limited: Whether the memory of devices is known; if not, none can lack any.

    Raises:
        NoForecastError: The goal is the time of a step, of which there is no forecast.
    """
    every = [known, *others]
    if limited:
        fewest = min(each.missing for each in every)
        every = [each for each in every if each.missing == fewest]
    by_time = goal is Goal.STEP_TIME
    values: dict[int, float] = {}
    lowest = inf
    for at in sorted(range(len(every)), key=lambda at: (every[at] is not known, by_time and every[at].least)):
        values[at] = every[at].value(goal, lowest / WORTH)
        lowest = min(lowest, values[at])
    return next(each for at, each in enumerate(every) if not lowest < WORTH * values[at])
