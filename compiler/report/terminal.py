"""The placement map in a terminal: a headline, tables of devices and of scopes, and a list of all ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from compiler.figures import count, duration, gathered, plural, ranges, share, size
from compiler.kinds.kind_map import AnyMap
from compiler.kinds.kinds import KindTime
from compiler.mapping.records import (
    MapClone,
    MapOp,
    MapPathPart,
    MapTime,
    Pipelined,
    PlacementMap,
    Recomputed,
    RuleRef,
)
from compiler.report.compare import Change
from compiler.report.devices import (
    FIGURES,
    Group,
    Totals,
    add_up,
    device_label,
    device_totals,
    first_that_fits,
    job_kind,
    of_group,
    pools,
)
from compiler.report.diff_text import change_lines
from compiler.report.scopes import FOLD_FROM, CountedScopes, Scope, folded
from compiler.report.view import GAP, View, headed, shorten, table, width_of

MISPLACED_SHOWN = 10
"""More misplaced ops than this are listed by scope."""


def terminal_map(placement: AnyMap, view: View) -> str:
    """Return the map as text, in lines of at most `view.width` characters unless names are longer."""
    blocks = [
        headline(placement),
        device_table(placement, view),
        fullness(placement, view),
        step_time(placement, view),
        assumptions(placement),
        matrix(placement, view),
        misplaced(placement, view),
    ]
    return "\n".join("".join(f"{line}\n" for line in block) for block in blocks if block)


def headline(placement: AnyMap) -> list[str]:
    """Return a few lines that say what the map is of."""
    mode = placement.mode
    counts = plural(placement.op_count, "op"), plural(len(placement.variables_like), "variable")
    workers = placement.workers
    listed = next((each.task for each in workers if each.listed), None)
    whose = () if listed is None else (f"{plural(len(workers), 'worker')}, of which {listed} is listed",)
    lines = [
        f"{placement.spec.path}: {mode.update}, {mode.replication}, {mode.aggregate}, {mode.reduce}",
        ", ".join((*counts, *whose, f"TensorFlow {placement.tensorflow}")),
    ]
    if mode.recomputed is not None:
        lines.append(_recomputed(mode.recomputed))
    if mode.pipelined is not None:
        lines.append(_pipelined(mode.pipelined))
    alike = gathered(((len(each.devices), each.batch), each) for each in placement.clones)
    return lines + [_clones(clones, *both) for both, clones in alike.items()]


def _recomputed(found: Recomputed) -> str:
    """Return what is computed again, what that saves and what it costs."""
    kept, whole = size(found.kept_bytes), size(found.kept_bytes + found.saved_bytes)
    return (
        f"{plural(found.segments, 'segment')} computed again: a clone keeps {kept} of its forward pass "
        f"and not {whole}, for {share(found.flops_again, found.flops)} more operations"
    )


def _pipelined(found: Pipelined) -> str:
    """Return how many micro-batches are under way, and how long stages wait that take equally long."""
    under_way = f"at most {found.held} of {found.micro_batches} micro-batches under way"
    waiting = f"{found.bubble:.0%} of the time waiting if stages take equally long"
    return f"{found.schedule} over {plural(found.stages, 'stage')}: {under_way}, {waiting}"


def _clones(clones: Sequence[MapClone], members: int, batch: int) -> str:
    """Return where clones are that have equally many devices and examples each."""
    used = list(dict.fromkeys(device for clone in clones for device in clone.devices))
    several = len(clones) > 1
    return (
        f"{'clones' if several else 'clone'} {ranges(each.index for each in clones)}"
        f" on {device_label(used)}{f' in groups of {members}' if members > 1 else ''},"
        f" {plural(batch, 'example')}{' each' if several else ''}"
    )


def assumptions(placement: AnyMap) -> list[str]:
    """Return lines about the sizes that the forecasts assume."""
    return [
        f"forecasts assume the size {each.size:,} for axis {each.axis} of `{each.input}` ({each.source})"
        for each in placement.assumptions
    ]


def misplaced(placement: AnyMap, view: View) -> list[str]:
    """Return lines about the ops that are not where they were requested; nothing before a step has run."""
    ran = placement.ran
    if not ran:
        return []
    ops = placement.misplaced
    if not ops:
        return [f"{plural(ran, 'op')} ran, each where it was asked to be"]
    lines = [view.ink(f"{ran:,} ops ran, {len(ops):,} of them elsewhere than asked", "red")]
    if len(ops) <= MISPLACED_SHOWN:
        return lines + [f"  {op.name}: {op.requested} -> {op.assigned}" for op in ops]
    moves = [
        Change(each.op.name, each.own_name, each.op.clone, each.devices, (each.op.assigned or "",))
        for each in placement.counted(misplaced=True)
    ]
    return [*lines, *change_lines(moves, MISPLACED_SHOWN), "--ops --only-misplaced lists each of them"]


SHOWN = 5
"""How many scopes, rules and links are shown."""


def step_time(placement: AnyMap, view: View) -> list[str]:
    """Return the lines about the time of a step; nothing if it was not forecast."""
    time = placement.time
    if time is None:
        return []
    lines = [time_line(placement.mode.update, time)]
    if time.bubble is not None:
        waiting = f"{time.bubble:.0%} of the time from the first op of a clone to the last"
        lines.append(f"the stages of its pipelines wait {waiting}")
    for title, parts in (("critical path by scope", time.by_scope), ("by rule", time.by_rule)):
        if parts:
            lines += _parts(title, parts, time.seconds, view)
    links = list(islice(placement.busiest_links(), SHOWN))
    if links:
        rows = [("link", "bytes", "time", "busy")]
        for each in links:
            way = f"{each.from_device} -> {each.to_device}"
            rows.append((way, size(each.bytes), duration(each.seconds), f"{each.busy:.0%}"))
        lines += headed(rows, view.ink)
    return lines


def time_line(update: str, time: MapTime | KindTime) -> str:
    """Return how long a step takes, and what that was forecast from, in words."""
    each = "there is an update every" if update == "async" else "a step takes"
    return f"{each} {duration(time.seconds)}, {origin(time)}"


def origin(time: MapTime | KindTime) -> str:
    """Return what a forecast was made from, in words."""
    if time.estimate:
        return f"an estimate for the hardware `{time.source}`"
    if time.measured > 1 - _ALL:
        return f"forecast by {time.source}"
    return f"forecast by {time.source}, which has {time.measured:.0%} of the time of its ops"


_ALL = 0.005
"""A share of ops that were not measured which is not worth a word."""


def _parts(title: str, parts: Sequence[MapPathPart], whole: float, view: View) -> list[str]:
    rows = [(title, "time", "of step")]
    rows += [(each.name, duration(each.seconds), share(each.seconds, whole)) for each in parts[:SHOWN]]
    return headed(rows, view.ink)


# --- what each device holds, sends and receives, and how full its memory is, as tables --------------------


MANY = 16
"""If there are more devices than this, those with equal figures share a row."""


def device_table(placement: AnyMap, view: View) -> list[str]:
    """Return the lines of the table, with a sum below if there are several devices."""
    totals = device_totals(placement)
    groups = first_that_fits(list(totals), totals.__getitem__, lambda groups: len(groups) <= MANY)
    named = [(each.title, of_group(each, totals)) for each in groups]
    if len(totals) > 1:
        named.append((f"all {len(totals)}", add_up(list(totals.values()))))
    rows = device_rows(named)
    if placement.time is not None:
        busy = ["" if each.busy is None else f"{each.busy:.0%}" for _, each in named]
        rows = [(*row, cell) for row, cell in zip(rows, ["busy", *busy], strict=True)]
    lines = _fitted(rows, view.width)
    lines[0] = view.ink(lines[0], "bold")
    if any(each.in_unknown for each in totals.values()):
        lines.append("+ and tensors whose size is not known before a step")
    return lines


def _fitted(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """Return the lines of a table; a name that leaves too little room is on a line before its figures."""
    room = width - width_of([row[1:] for row in rows]) - len(GAP)
    long = [row[0] if len(row[0]) > room else "" for row in rows]
    short = [("" if name else row[0], *row[1:]) for name, row in zip(long, rows, strict=True)]
    return [line for name, line in zip(long, table(short), strict=True) for line in (name, line) if line]


def device_rows(named: Iterable[tuple[str, Totals]]) -> list[tuple[str, ...]]:
    """Return the head of a table of devices, and a row for each; memory has a column if it is forecast."""
    listed = list(named)
    forecast = any(each.memory is not None for _, each in listed)
    shown = [each for each in FIGURES if forecast or each.name != "memory"]
    head = ("device", *(each.title for each in shown))
    return [head, *((name, *(each.cell(totals) for each in shown)) for name, totals in listed)]


def fullness(placement: AnyMap, view: View) -> list[str]:
    """Return a line for each GPU and machine; nothing if the spec does not give their memory."""
    alike = gathered(
        ((job_kind(pool.devices[0].ref), pool.needed, pool.limit), pool) for pool in pools(placement)
    )
    if not alike:
        return []
    rows = [("memory", "forecast", "there is", "full")]
    for (_, needed, limit), same in alike.items():
        label = device_label([device.ref for pool in same for device in pool.devices])
        each = f" (each of {len(same)})" if len(same) > 1 else ""
        rows.append((f"{label}{each}", size(needed), size(limit), f"{needed / limit:.1%}"))
    return headed(rows, view.ink)


# --- a table of scopes and devices: the number of ops of each scope on each device ------------------------


SCREEN = 40
"""The most rows if no depth is asked for."""

_LEVELS = 2
"""The levels of scopes that are made at first; large maps have hundreds of thousands of scopes below them."""

NARROWEST = 24
"""The characters that a scope's name has at least, however many devices there are."""

Row = tuple[int, Scope]


def matrix(placement: AnyMap, view: View) -> list[str]:
    """Return the lines of the table of the ops that `view` chooses, by the devices asked for."""
    if view.every_clone:
        placement = placement.expanded()
    fold_from = len(placement.clones) + 1 if view.every_clone else FOLD_FROM
    name, levels = folded(placement, fold_from), view.depth or _LEVELS
    tree = CountedScopes.of(view.chosen(placement, levels), name, levels)
    while view.depth is None and fitting_depth(tree.root) == levels < tree.depth:
        levels *= 2
        tree = CountedScopes.of(view.chosen(placement, levels), name, levels)
    root = tree.root
    if not root.total:
        return [view.nothing()]
    depth = fitting_depth(root) if view.depth is None else view.depth
    shown = list(root.walk(depth))
    everything = placement.devices
    used = [each.ref for each in everything if tree.number(root, each.ref)]
    groups = _columns(used, shown, tree, view)
    others = [each for each in everything if each.ref not in set(used)]
    has_workers = bool(placement.workers)
    alike = [each.ref for each in others if has_workers and each.ops]
    chosen = view.glob is not None or view.only_misplaced
    idle = [each.ref for each in others if each.ref not in set(alike)]
    return [*_lines(shown, tree, groups, view), *_remarks(alike, idle, tree.depth, depth, chosen=chosen)]


def fitting_depth(root: Scope) -> int:
    """Return the greatest depth whose rows fit a screen, at least 1."""
    depth, deepest = 1, root.depth
    while depth < deepest and sum(1 for _ in root.walk(depth + 1)) <= SCREEN:
        depth += 1
    return depth


def _columns(
    devices: Sequence[str], shown: Sequence[Row], tree: CountedScopes, view: View
) -> tuple[Group, ...]:
    """Return the columns: each device if there is room, else several combined."""
    counted = [scope for _, scope in shown] + [tree.root]
    label = max((len(_label(row)) for row in shown), default=0)
    room = view.width - min(NARROWEST, label) - len(GAP)
    known: dict[tuple[str, ...], tuple[int, ...]] = {}

    def figures(device: str) -> tuple[int, ...]:
        sort = tree.sort_of(device)
        if sort not in known:
            known[sort] = tuple(tree.number(scope, device) for scope in counted)
        return known[sort]

    def fits(groups: tuple[Group, ...]) -> bool:
        labels = sum(len(each.label) for each in groups)  # no column is narrower than its label
        return labels <= room and width_of(_cells(groups, counted, tree)) <= room

    return first_that_fits(devices, figures, fits)


def _lines(shown: Sequence[Row], tree: CountedScopes, groups: Sequence[Group], view: View) -> list[str]:
    cells = _cells(groups, [scope for _, scope in shown] + [tree.root], tree)
    room = max(NARROWEST, view.width - width_of(cells) - len(GAP))
    labels = ["scope", "", *(shorten(_label(row), room) for row in shown), "all"]
    rows = [(label, *row) for label, row in zip(labels, cells, strict=True)]
    if not any(rows[1]):
        del rows[1]
    return headed(rows, view.ink)


def _cells(groups: Sequence[Group], counted: Sequence[Scope], tree: CountedScopes) -> list[tuple[str, ...]]:
    """Return the two rows of the head and a row for each scope, without the names of the scopes."""
    head = [tuple(each.label for each in groups), tuple(each.note for each in groups)]
    sorts = [_sorts(each, tree) for each in groups]
    return head + [tuple(count(_figure(each, scope, tree)) for each in sorts) for scope in counted]


def _sorts(group: Group, tree: CountedScopes) -> list[tuple[str, int]]:
    """Return devices of which a group has the figures, one for all that are alike, with their number."""
    if group.figures == "each":
        return [(group.devices[0], 1)]
    sorts = gathered((tree.sort_of(ref), ref) for ref in group.devices)
    return [(alike[0], len(alike)) for alike in sorts.values()]


def _figure(sorts: Sequence[tuple[str, int]], scope: Scope, tree: CountedScopes) -> int:
    return sum(tree.number(scope, ref) * number for ref, number in sorts)


def _label(row: Row) -> str:
    level, scope = row
    return f"{'  ' * level}{scope.name}/"


def _remarks(
    alike: Sequence[str], idle: Sequence[str], deepest: int, depth: int, *, chosen: bool
) -> Iterator[str]:
    """Return notes on what the table leaves out."""
    if idle:
        yield f"{'none of these' if chosen else 'no ops'} on {device_label(idle)}"
    if alike and not chosen:
        yield f"{device_label(alike)}: the same as on the worker that is listed"
    if depth < deepest:
        yield f"depth {depth} of {deepest}; --depth N shows more, --ops every op"


# --- a list of all ops with device, role, and the reason for the device -----------------------------------


def op_list(placement: PlacementMap, view: View) -> Iterator[str]:
    """Yield a line for each op that `view` chooses, in the order of the graph: device, role, name, reason."""
    ops = [each.op for each in view.chosen(placement)]
    if not ops:
        yield view.nothing()
        return
    devices = [_device(op) for op in ops]
    widths = [_widest(devices), _widest([op.role for op in ops])]
    for op, device in zip(ops, devices, strict=True):
        yield GAP.join(
            (device.ljust(widths[0]), op.role.ljust(widths[1]), op.name, reason(op.rule, placement.spec.path))
        )


def reason(rule: RuleRef, spec: str) -> str:
    """Return the reason for a place in one line: `clones -> gpu[*] (line 16)`.

    The file is named if it is not `spec`.
    """
    decided = rule.decided_by or rule.text
    follows = f"follows {rule.text}" if rule.reason == "follows" else ""
    if follows and rule.decided_by is None:
        return follows
    if rule.file is None:
        place = "default"
    else:
        place = f"line {rule.line}" if rule.file == spec else f"{rule.file}:{rule.line}"
    return f"{follows}{': ' if follows else ''}{decided} ({place})"


def _device(op: MapOp) -> str:
    moved = op.assigned is not None and op.assigned != op.requested
    return f"{op.requested} -> {op.assigned}" if moved else op.requested


def _widest(texts: Sequence[str]) -> int:
    return max(map(len, set(texts)))
