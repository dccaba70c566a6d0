"""What `tfdeploy suggest` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from attrs import field, frozen

from compiler.figures import duration, plural, size
from compiler.report.view import table
from compiler.suggest.outcome import Figures, Goal


@frozen
class Suggestion:
    """What was found."""

    path: str
    goal: Goal
    rules: tuple[str, ...]  # the rules of the `place` block of the best placement, as text
    before: Figures  # what the spec comes to as it is
    after: Figures  # what the best placement comes to; the same record as `before` if none is better
    bound: float  # what no placement is below
    tried: int  # how many placements were built; none if they have many clones that are alike
    compared: int = 0  # how many placements were compared without being built
    estimate: str = ""  # what the times are from, if they are not measured
    # What takes the most memory on each device or machine that is too small, as lines.
    largest: tuple[str, ...] = ()
    # The values of attributes that are not those of the spec, by block and name, as text.
    values: Mapping[tuple[str, str], str] = field(factory=dict)
    # What stays equal and what does not if other things than places change, as sentences.
    notes: tuple[str, ...] = ()

    @property
    def improved(self) -> bool:
        """Whether a better placement than that of the spec was found."""
        return self.after is not self.before


def suggestion_text(found: Suggestion) -> str:
    """Return a suggestion as text."""
    more = f", {found.compared} more compared" if found.compared else ""
    lines = [f"{found.path}: for {found.goal}, {plural(found.tried, 'placement')} built{more}"]
    if not found.tried:
        placements = plural(found.compared, "placement")
        lines = [f"{found.path}: for {found.goal}, {placements} compared without the graph of all clones"]
    if found.estimate:
        lines.append(found.estimate)
    lines.append("")
    if found.improved:
        lines += [*_blocks(found), ""]
    else:
        lines += ["none of them is better than the rules of the spec", ""]
    lines += table(_rows(found), left=2)
    lines += ["", *found.notes] if found.notes else []
    value = found.after.value(found.goal)
    gap = f", {value / found.bound:.2f} times that" if found.bound > 0 else ""
    least, here = _written(found.goal, found.bound), _written(found.goal, value)
    lines += ["", f"no placement is below {least}; this is {here}{gap}"]
    if found.after.bottleneck:
        lines.append(f"bottleneck: {found.after.bottleneck}")
    if found.after.missing:
        lines += ["", f"nothing that was tried fits: {size(found.after.missing)} are missing"]
        lines += [f"  {each}" for each in found.largest]
    return "\n".join(lines) + "\n"


def _blocks(found: Suggestion) -> list[str]:
    """Return the blocks of the spec with what changes in them, in the order of specs."""
    lines = []
    for kind in ("clones", "place", "update"):
        items = [f"{name} = {value}" for (block, name), value in found.values.items() if block == kind]
        items = [*found.rules] if kind == "place" else items
        if items:
            lines += [f"{kind} {{", *(f"  {each}" for each in items), "}"]
    return lines


def suggestion_json(found: Suggestion) -> str:
    """Return a suggestion as JSON: sizes in bytes, times in seconds."""
    value = found.after.value(found.goal)
    told = {
        "spec": found.path,
        "goal": str(found.goal),
        "improved": found.improved,
        "rules": list(found.rules),
        "values": {f"{block}.{name}": value for (block, name), value in found.values.items()},
        "notes": list(found.notes),
        "before": _figures(found.before),
        "after": _figures(found.after),
        "bound": found.bound,
        "gap": value / found.bound if found.bound > 0 else None,
        "built": found.tried,
        "compared": found.compared,
        "estimate": found.estimate or None,
        "missing": list(found.largest),
    }
    return json.dumps(told, indent=1) + "\n"


def _figures(figures: Figures) -> dict[str, object]:
    return {
        "seconds": figures.seconds,
        "fullest": {"device": figures.fullest[0], "bytes": figures.fullest[1]},
        "heaviest": {"device": figures.heaviest[0], "bytes": figures.heaviest[1]},
        "sent": figures.sent,
        "missing": figures.missing,
        "bottleneck": figures.bottleneck or None,
    }


def _rows(found: Suggestion) -> Sequence[Sequence[str]]:
    before, after = found.before, found.after
    rows = [("", "", "before", "after")]
    if before.seconds is not None and after.seconds is not None:
        rows.append(("time of a step", "", duration(before.seconds), duration(after.seconds)))
    for title, (there, was), (here, now) in (
        ("memory of the fullest device", before.fullest, after.fullest),
        ("variables and slots on one device", before.heaviest, after.heaviest),
    ):
        rows.append((title, here if there == here else f"{there}, then {here}", size(was), size(now)))
    rows.append(("sent in a step", "", size(before.sent), size(after.sent)))
    if before.missing:
        rows.append(("missing memory", "", size(before.missing), size(after.missing)))
    return rows


def _written(goal: Goal, value: float) -> str:
    return duration(value) if goal is Goal.STEP_TIME else size(round(value))
