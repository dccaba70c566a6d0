"""What a kind of things stands for: its tasks and clones, and the devices that a template names for them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from attrs import define, field

from compiler.kinds.deployment.grid import Grid, Spot
from compiler.kinds.names.templates import INDEX, PLACE, SUM, TASK, Numbers, Template, parse
from compiler.kinds.records.kind_map import KindMap, MapGrid, MapKind, MapRange


def grid_of_map(grid: MapGrid) -> Grid:
    """Return the grid of a map."""
    return Grid(grid.job, grid.kind, grid.tasks, grid.clones, grid.devices, grid.sums)


def spot_of_kind(kind: MapKind) -> Spot:
    """Return the place of a kind: 0 for the first task or clone, 1 for all others."""
    return Spot(_first(kind.tasks), _first(kind.clones))


def _first(numbers: MapRange | None) -> int | None:
    return None if numbers is None else min(numbers.first, 1)


def numbers_of(numbers: MapRange | None) -> range:
    """Return the tasks or clones of a kind; 0 stands for what is of none."""
    return range(1) if numbers is None else range(numbers.first, numbers.last + 1)


@define
class Kinds:
    """The kinds of a map, and the names of their things.

    Attributes:
        placement: The map.
        numbers: The numbers of its tasks and clones.
    """

    placement: KindMap
    numbers: Numbers = field(init=False)
    _templates: dict[str, Template] = field(factory=dict)
    _devices: dict[tuple[str, int], tuple[str, ...]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.numbers = Numbers(grid_of_map(self.placement.grid))

    def template(self, text: str) -> Template:
        """Return a text of the map as a template."""
        found = self._templates.get(text)
        if found is None:
            found = self._templates[text] = parse(text, self.numbers.grid)
        return found

    def members(self, of: int) -> Iterator[tuple[int, int]]:
        """Yield the task, and the clone on it, of each thing of a kind."""
        kind = self.placement.kinds[of]
        return product(numbers_of(kind.tasks), numbers_of(kind.clones))

    def devices(self, text: str, of: int) -> tuple[str, ...]:
        """Return the devices that a template names for the things of a kind, equally many on each.

        Args:
            text: The name of the devices as a template of the map.
            of: The number of the kind in the map.
        """
        key = (text, of)
        found = self._devices.get(key)
        if found is None:
            found = self._devices[key] = tuple(self._named(self.template(text), self.placement.kinds[of]))
        return found

    def _named(self, template: Template, kind: MapKind) -> Iterator[str]:
        places = [each for each in template.parts if isinstance(each, int)]
        hosts = numbers_of(kind.tasks) if TASK in places else (0,)
        of_clone = any(each == PLACE or INDEX <= each < SUM for each in places)
        groups = numbers_of(kind.clones) if of_clone else (0,)
        for host, group in product(hosts, groups):
            yield template.at(self.numbers, host, group)
