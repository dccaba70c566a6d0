"""The selectors and targets of `place`, and the conditions of `expect`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from dsl.values import Dimension

Pattern: TypeAlias = Literal["none", "optional", "required"]


@frozen
class Selector:
    """What a rule can take; `pattern` is whether a glob goes with it."""

    name: str
    pattern: Pattern
    doc: str


SELECTORS = (
    Selector("clones", "none", "the towers, one device (or one group) each, in order, wrapping round"),
    Selector("variables", "optional", "the model's variables, all or by a glob on their names"),
    Selector("slots", "optional", "the optimizer's slots, all or by a glob on the names of their variables"),
    Selector("inputs", "none", "reading and transforming data"),
    Selector("updates", "none", "aggregation and apply ops"),
    Selector("ops", "required", "the ops of a part of each tower, by a glob on the name inside the tower"),
    Selector("summaries", "none", "the ops that make summaries"),
    Selector("evaluation", "none", "the ops of evaluations"),
)

TargetShape: TypeAlias = Literal["word", "set", "groups", "member"]


@frozen
class Target:
    """Where a rule can put things; `roles` are the selectors it goes with."""

    name: str
    shape: TargetShape
    roles: tuple[str, ...]
    doc: str


TARGETS = (
    Target("balanced", "set", ("variables",), "largest first to the least loaded device, slots counted"),
    Target("round_robin", "set", ("variables",), "in order of creation, one device after the other"),
    Target(
        "replicated", "word", ("variables",), "a copy on the device of every clone, kept equal by all-reduce"
    ),
    Target("groups", "groups", ("clones",), "`groups(set, size = 2)`: each clone owns a group of devices"),
    Target(
        "group",
        "member",
        ("ops", "variables"),
        "`group[1]`: a device of the clone's own group",
    ),
)


@frozen
class Measure:
    """A function of `expect`: `arguments` are `devices`, `glob` or a word, `dimension` that of the figure."""

    name: str
    arguments: tuple[str, ...]
    dimension: Dimension | None
    doc: str


MEASURES = (
    Measure(
        "imbalance", ("variables",), "fraction", "how far the fullest device is above the mean, by bytes"
    ),
    Measure("memory", ("devices",), "bytes", "the memory that any of the devices needs for a step"),
    Measure(
        "traffic", ("devices", "devices"), "bytes", "what goes from the first devices to the second in a step"
    ),
    Measure("ops", ("devices", "glob"), None, "how many ops whose names match the glob sit on the devices"),
)

COMPARISONS = ("<=", "<", ">=", ">", "==")


def selector(name: str) -> Selector | None:
    """Return the selector called `name`, or None."""
    return next((each for each in SELECTORS if each.name == name), None)


def target(name: str) -> Target | None:
    """Return the target called `name`, or None."""
    return next((each for each in TARGETS if each.name == name), None)


def measure(name: str) -> Measure | None:
    """Return the function of `expect` called `name`, or None."""
    return next((each for each in MEASURES if each.name == name), None)
