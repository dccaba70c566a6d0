"""The tasks of a cluster in the terminal: where they are, and how they do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from compiler.figures import size
from dsl.diagnostics import SpecError
from tfdeploy.runtime.cluster.monitor import TaskStatus, lags
from tfdeploy.runtime.show.console import console
from tfdeploy.runtime.show.reporting import number

AGAIN = 2.0
HEADS = ("step", "lag", "examples/s", "memory", "in/s", "out/s", "cores")
NONE = "."


def address_lines(found: Sequence[TaskStatus]) -> Iterator[str]:
    """Yield a line for each task: its name, its address, and since when it is running, or why it is not."""
    names, addresses = (
        max(map(len, each)) for each in zip(*((t.name, t.address) for t in found), strict=True)
    )
    for each in found:
        yield f"{each.name:<{names}}  {each.address:<{addresses}}  {each.words}"


def task_table(found: Sequence[TaskStatus], *, color: bool) -> None:
    """Print how the tasks do that have said it, below an empty line; nothing if none has."""
    known = [each for each in found if each.health is not None]
    if known:
        out = console(color=color)
        out.print()
        out.print(_table(known))


def watching(ask: Callable[[], Sequence[TaskStatus]], *, color: bool) -> None:
    """Show how tasks do, again and again, until Ctrl-C comes or the run is over.

    A terminal shows one table, which changes; into a pipe or a file goes one after the other.
    """
    out = console(color=color)
    show: Callable[[Any], object] = out.print
    try:
        with ExitStack() as stack:
            if out.is_terminal:
                live = stack.enter_context(Live(console=out, auto_refresh=False))
                show = partial(live.update, refresh=True)
            while True:
                show(_table(ask()))
                time.sleep(AGAIN)
    except SpecError:
        out.print("the run is over")
    except KeyboardInterrupt:
        return


def _table(found: Sequence[TaskStatus]) -> Group:
    """Return a table with a line for each task, and below it all that is wrong with tasks."""
    behind = lags(found)
    numbers = [Column(head, justify="right", no_wrap=True) for head in HEADS]
    last = Column("doing", no_wrap=True, overflow="ellipsis", ratio=1)
    rows = Table(
        Column("task", no_wrap=True),
        *numbers,
        last,
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        expand=True,
    )
    wrong = []
    for each in found:
        own, late = each.health, each.health is not None and each.health.late
        made = None if own is None else own.step if own.updates is None else own.updates
        cells = [NONE if made is None else number(made)]
        cells += [number(int(behind[each.name])) if each.name in behind else NONE]
        cells += [NONE if own is None or made is None else number(round(own.speed))]
        amounts = (0, 0, 0) if own is None else (own.memory, round(own.receiving), round(own.sending))
        cells += [*map(size, amounts), NONE if own is None else f"{own.cores:.1f}"]
        doing = Text("" if own is None else own.doing)
        style = "" if each.well and not late else "yellow" if each.well else "bold red"
        rows.add_row(each.name, *cells, doing, style=style)
        if style:
            words = own.words if own is not None and each.well else each.words
            wrong.append(Text(f"{each.name}: {words}", style=style))
    return Group(rows, *wrong)
