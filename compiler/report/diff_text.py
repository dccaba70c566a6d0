"""The differences between two placement maps as text for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from attrs import asdict, frozen

from compiler.figures import count, duration, gathered, plural, ranges, size, size_of_known
from compiler.mapping.records import MapTransfer
from compiler.report.compare import Change, Comparison, DeviceChange, LinkChange, TimeChange
from compiler.report.devices import FIGURES, device_label, groupings, job_kind
from compiler.report.scopes import Part, Scope, build, cut
from compiler.report.view import Ink, headed, shorten, signed

ROWS = 20
"""The most variables, devices and links that are listed."""

PARTS = 5
"""The most scopes of the critical path and links whose times are compared."""

WIDTH = 80
"""The length of a line that names variables which moved in the same way."""


def diff_text(comparison: Comparison, ink: Ink) -> str:
    """Return the text: ops by scope, variables, then bytes of devices and links before and after."""
    if not comparison.different:
        return "no difference\n"
    blocks = [
        list(_modes(comparison)),
        *(_ops(title, chosen, ink) for title, chosen in _sorts(comparison.ops)),
        list(_variables(comparison.variables, ink)),
        _devices(comparison.devices, ink),
        _links(comparison.links, ink),
        _time(comparison.time, ink),
    ]
    return "\n".join("".join(f"{line}\n" for line in block) for block in blocks if block)


def _modes(comparison: Comparison) -> Iterator[str]:
    before, after = asdict(comparison.mode_before), asdict(comparison.mode_after)
    for name, was in before.items():
        if was != after[name]:
            yield f"{name}: {was} -> {after[name]}"


# --- ops and variables ------------------------------------------------------------------------------------


def _sorts(changes: Sequence[Change]) -> list[tuple[str, list[Change]]]:
    return [
        ("moved", [each for each in changes if each.moved]),
        ("appeared", [each for each in changes if not each.before]),
        ("vanished", [each for each in changes if not each.after]),
    ]


def _ops(title: str, changes: Sequence[Change], ink: Ink) -> list[str]:
    if not changes:
        return []
    return [ink(f"{plural(len(changes), 'op')} {title}", "bold"), *change_lines(changes)]


def _variables(changes: Sequence[Change], ink: Ink) -> Iterator[str]:
    """Yield lines about the variables and slots that moved, those with most bytes first."""
    if not changes:
        return
    ways = gathered(
        ((place_of(each.before, each.cuts[0]), place_of(each.after, each.cuts[1])), each) for each in changes
    )
    total = sum(each.bytes for each in changes)
    yield ink(f"variables and slots: {len(changes):,}, {size(total)}", "bold")
    ranked = sorted(ways.items(), key=lambda item: -sum(each.bytes for each in item[1]))
    for (before, after), members in ranked[:ROWS]:
        held = sum(each.bytes for each in members)
        yield from _way_lines(before, after, f"{size(held)} in {len(members):,}: ", members)
    if len(ranked) > ROWS:
        yield f"  and {plural(len(ranked) - ROWS, 'more way')}"


def _way_lines(before: str, after: str, held: str, members: Sequence[Change]) -> Iterator[str]:
    """Yield how variables moved: in one line, or if that is too long, each place on lines of its own."""
    names = [each.name for each in members]
    start = f"  {before} -> {after}  {held}"
    if len(start) + len(", ".join([names[0], *["..."] * (len(names) > 1)])) <= WIDTH:
        yield start + _some(names, WIDTH - len(start))
        return
    deeper = " " * 4
    for place, first in ((before, "  "), (f"-> {after}", deeper)):
        yield from textwrap.wrap(
            place, WIDTH, initial_indent=first, subsequent_indent=deeper, break_on_hyphens=False
        )
    yield f"{deeper}{held}{_some(names, WIDTH - len(deeper) - len(held))}"


def _some(names: Sequence[str], room: int) -> str:
    """Return as many of the names as there is room for, at least one; a long one without its middle."""
    shown = [shorten(names[0], room - len(", ...") * (len(names) > 1))]
    for name in names[1:]:
        if len(", ".join([*shown, name])) + len(", ...") > room:
            return ", ".join([*shown, "..."])
        shown.append(name)
    return ", ".join(shown)


def place_of(devices: tuple[str, ...], cut: str) -> str:
    """Return where a variable is, and how it is cut if that differs.

    Args:
        devices: The devices of the variable's copies or pieces; none if one of the maps has no such variable.
        cut: The axis along which it is cut, as text; empty if this is not to be shown.
    """
    place = device_label(devices) if devices else "(none)"
    return f"{place} along {cut}" if cut else place


# --- devices ----------------------------------------------------------------------------------------------


def _devices(changes: Sequence[DeviceChange], ink: Ink) -> list[str]:
    if not changes:
        return []
    by_ref = {each.ref: each for each in changes}
    _, *ways = groupings(list(by_ref), lambda ref: (by_ref[ref].before, by_ref[ref].after))
    groups = next((each for each in ways if len(each) <= ROWS), ways[-1])
    rows: list[tuple[str, ...]] = [("device", "", "before", "after", "change")]
    for group in groups:
        changed = [by_ref[ref] for ref in group.devices]
        sample = changed[:1] if group.figures == "each" else changed
        rows += _device_rows(group.title, sample)
    return headed(rows, ink, left=2)


def _device_rows(label: str, changes: Sequence[DeviceChange]) -> Iterator[tuple[str, ...]]:
    for each in FIGURES:
        before = sum(each.of(change.before) for change in changes)
        after = sum(each.of(change.after) for change in changes)
        if before != after:
            yield label, each.title, each.text(before), each.text(after), signed(after - before, each.text)
            label = ""


# --- links ------------------------------------------------------------------------------------------------


def _links(changes: Sequence[LinkChange], ink: Ink) -> list[str]:
    rows = [_link_row(members) for members in _alike(changes)]
    rows.sort(key=lambda row: -abs(row[0]))
    if not rows:
        return []
    head = ("from", "to", "", "before", "after", "change")
    lines = headed([head, *(row[1] for row in rows[:ROWS])], ink, left=3)
    if len(rows) > ROWS:
        lines.append(f"and {plural(len(rows) - ROWS, 'more link')} with smaller changes")
    return lines


def _time(change: TimeChange | None, ink: Ink) -> list[str]:
    """Return how much slower or faster a step is, and on which parts of it and links that lies."""
    if change is None:
        return []
    before, after = change.before, change.after
    if after.seconds == before.seconds:
        how = "the same"
    elif not before.seconds:
        how = "longer"
    else:
        factor = after.seconds / before.seconds
        how = f"{factor - 1:.0%} longer" if factor > 1 else f"{1 - factor:.0%} shorter"
    lines = [f"a step: {duration(before.seconds)} -> {duration(after.seconds)}, {how}"]
    if before.estimate or after.estimate:
        lines[0] += " (an estimate)"
    old, new = ({each.name: each.seconds for each in time.by_scope} for time in (before, after))
    scopes = {name: new.get(name, 0.0) - old.get(name, 0.0) for name in dict.fromkeys((*old, *new))}
    ranked = sorted((name for name in scopes if scopes[name]), key=lambda name: -abs(scopes[name]))
    parts = [(name, old.get(name, 0.0), new.get(name, 0.0)) for name in ranked]
    links = [(f"{each.from_device} -> {each.to_device}", each.before, each.after) for each in change.links]
    for title, found in (("on the critical path", parts), ("link", links)):
        if found:
            rows = [(title, "before", "after", "change")]
            rows += [
                (name, duration(was), duration(now), signed(now - was, duration))
                for name, was, now in found[:PARTS]
            ]
            lines += headed(rows, ink)
    return lines


def _link_row(members: Sequence[LinkChange]) -> tuple[int, tuple[str, ...]]:
    first = members[0]
    change = _bytes(first.after) - _bytes(first.before)
    sources = list(dict.fromkeys(each.from_device for each in members))
    targets = list(dict.fromkeys(each.to_device for each in members))
    note = f"each of {len(members)}" if len(members) > 1 else ""
    cells = (_sent(first.before), _sent(first.after), signed(change, size) if change else "")
    return change * len(members), (device_label(sources), device_label(targets), note, *cells)


def _alike(changes: Sequence[LinkChange]) -> list[list[LinkChange]]:
    """Combine links with equal figures: from one device to those of a kind, or from those to one."""
    by_source = gathered(
        ((each.from_device, job_kind(each.to_device), _figures(each)), each) for each in changes
    ).values()
    single = [members[0] for members in by_source if len(members) == 1]
    by_target = gathered(
        ((each.to_device, job_kind(each.from_device), _figures(each)), each) for each in single
    ).values()
    return [*(members for members in by_source if len(members) > 1), *by_target]


def _figures(change: LinkChange) -> tuple[str, ...]:
    return (_sent(change.before), _sent(change.after), str(_bytes(change.before)), str(_bytes(change.after)))


def _bytes(transfer: MapTransfer | None) -> int:
    return transfer.bytes if transfer is not None else 0


def _sent(transfer: MapTransfer | None) -> str:
    if transfer is None:
        return size(0)
    return f"{size_of_known(transfer.bytes, transfer.bytes_unknown)} in {transfer.tensors:,}"


# --- describe many changes in few lines: by scope, with equal clones and devices of one kind combined -----


LINES = 20
"""The most lines about ops."""

WIDEST = 44
"""Names of scopes are cut to this many characters."""

CLONES = "clone_*"


@frozen
class Line:
    """Ops of one scope that moved from devices of a kind to devices of a kind."""

    scope: str
    ops: int
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def way(self) -> str:
        """The devices before and after, in words."""
        if not self.after:
            return f"was on {device_label(self.before)}"
        if not self.before:
            return f"on {device_label(self.after)}"
        if len(self.before) > 1 and set(self.before) == set(self.after):
            return f"among {device_label(self.before)}"
        return f"{device_label(self.before)} -> {device_label(self.after)}"


@frozen
class Way:
    """What the changes that are counted together have in common."""

    clone: int | None  # the number of the clone of the ops, or None for ops of no clone
    before: tuple[str, ...]
    after: tuple[str, ...]

    @cached_property
    def family(self) -> tuple[object, ...]:
        """The kinds of devices before and after; ways of one family share a line."""
        return tuple(tuple(dict.fromkeys(map(job_kind, side))) for side in (self.before, self.after))


def lines_of(changes: Sequence[Change], limit: int = LINES) -> list[Line]:
    """Return at most `limit` lines that describe the changes of all ops, as far as that is possible."""
    ways: dict[str, Way] = {}

    def key(change: Change) -> str:
        name = f"{change.clone} {change.before} {change.after}"
        ways.setdefault(name, Way(change.clone, change.before, change.after))
        return name

    root = build(changes, lambda each: each.name if each.clone is None else f"{CLONES}/{each.inner}", key)

    def is_mixed(scope: Scope) -> bool:
        """Whether ops of one clone moved in different ways, which opening the scope may separate."""
        if not scope.path:
            return True
        if not all(ways[each].before and ways[each].after for each in scope.counts):
            return False  # the scope is enough for ops that only one map has
        starts = Counter((ways[each].clone, ways[each].family) for each in scope.counts)
        return max(starts.values(), default=0) > 1 or len({way[1] for way in starts}) > 1

    def cost(part: Part) -> int:
        return len({ways[each].family for each in part.counts})

    parts = cut(root, limit, is_mixed, cost)
    return [line for part in _tops(parts) for line in _part_lines(part, ways)]


def change_lines(changes: Sequence[Change], limit: int = LINES) -> list[str]:
    """Return the lines as text, in columns: scope, number of ops, devices before and after."""
    rows = [(shorten(line.scope, WIDEST), count(line.ops), line.way) for line in lines_of(changes, limit)]
    widths = [max(len(row[at]) for row in rows) for at in (0, 1)]
    return [f"  {scope:{widths[0]}}  {number:>{widths[1]}}  {way}" for scope, number, way in rows]


def _tops(parts: Iterable[Part]) -> Iterator[Part]:
    """Name a part that is the whole tree by the scope that holds all of it."""
    for part in parts:
        scope = part.scope
        while not part.own and part.members is None and not scope.own and len(scope.children) == 1:
            (scope,) = scope.children.values()
        yield part if scope is part.scope else Part(scope)


def _part_lines(part: Part, ways: dict[str, Way]) -> Iterator[Line]:
    counted = ((ways[name], number) for name, number in part.counts.items())
    families = gathered((way.family, (way, number)) for way, number in counted)
    for members in families.values():
        clones = [way.clone for way, _ in members if way.clone is not None]
        path = part.scope.path.replace(CLONES, f"clone_{ranges(clones)}", 1) if clones else part.scope.path
        yield Line(
            scope=_label(part, path),
            ops=sum(number for _, number in members),
            before=tuple(dict.fromkeys(ref for way, _ in members for ref in way.before)),
            after=tuple(dict.fromkeys(ref for way, _ in members for ref in way.after)),
        )


def _label(part: Part, path: str) -> str:
    if not path:
        return "(no scope)" if part.own else "(everything)"
    return path if part.members is not None else f"{path}/"
