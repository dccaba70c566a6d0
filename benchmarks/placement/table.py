"""Write the page of the documentation on the search: `python -m benchmarks.placement.table FOLDER`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
from attrs import frozen

from benchmarks.placement.__main__ import TIME
from benchmarks.placement.files import read_json, workload_of
from benchmarks.placement.generated import GRAPHS
from compiler.search.pieces import MOST_WORK
from compiler.search.search import search

PAGE = Path(__file__).parents[2] / "docs" / "placement-search.md"
LONG = 2

PUBLISHED: Mapping[str, tuple[float, ...]] = {
    # input: dynamic program, local search, PipeDream's, all on one device, and the experts' split if there
    # is one
    "bert24_inference": (17.790, 17.778, 17.790, 92.41, 20.084),
    "bert24_training": (41.746, 39.943, 187.91, 217.81, 49.405),
    "gnmt_inference": (32.911, 31.783, 33.031, 182.56, 46.208),
    "resnet50_inference": (33.775, 35.889, 39.398, 201.45, 43.918),
    "resnet50_training": (78.632, 81.605, 83.674, 462.38, 112.108),
    "bert3_operators_inference": (27.919, 27.574, 37.456, 49.35),
    "bert3_operators_training": (65.303, 68.063, 122.99, 122.99),
}
"""The max-load of the published programs, as they were compiled and run."""

INTRODUCTION = f"""\
<!-- Written by `python -m benchmarks.placement.table`; change that program, not this page. -->
# The search for placements

`tfdeploy suggest` splits a tower over the devices of a group by a search, which is also run on graphs from
the literature:

```sh
python -m benchmarks.placement INPUT.json --out SPLIT.json
```

The measure is the max-load: the largest load of a device, where the load of an accelerator is the time of its
operators and of the transfers of their inputs and outputs. It is the time for each sample of a full
pipeline. *Bound* is a max-load below which no placement is, and *gap* is how far the result is above it:
what the result could at most be improved by. *{LONG} times as long* is the max-load after {LONG} times as
many cycles of the search. Seconds are those of the processor, on one core, without the start of Python; the
result does not depend on them, because the search counts its steps and not the time. Only the command above
looks at the clock: it ends a search after {TIME:.0f} seconds, as on a machine that does much else.

The search begins with the best split into consecutive pieces, which a dynamic program finds among prefixes of
the graph, or, if that is better, with whole components, each on the device that is then the least busy. If an
input does not say which gradients belong to which operators, the pieces are also those of pairs of them. It
improves the placement by moves at falling temperatures, first of large parts and then of single operators. If
branches are parallel, the number of prefixes grows exponentially with the branches. So a few of
each size are looked at: those with the least to send, and as many that differ in their work. Each part of the
search has a bound: if the dynamic program would have more than {MOST_WORK:,} numbers to compute, it looks at
the prefixes of every second size only, or of every fourth, and so on; and if operators have many readers, or
devices to be on, each of them is offered a new device less often. So a graph of 2,000 operators of any shape
takes seconds. A wide graph takes no longer, but its placement may be further from the best one.
"""
FOR_PUBLISHED = """\
## Published graphs

The graphs and costs are those of Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph
Operators (NeurIPS 2020). *Published* is the best max-load of the authors' dynamic program, their local
search from ten starts, PipeDream's algorithm, everything on one device, and an expert's split if there is
one.
"""
FOR_GENERATED = """\
## Made-up graphs

These have the structure of known models and made-up costs (`benchmarks/placement/generated.py`), and show
how the search does on larger graphs. The tangles have no structure: each node reads from one to three of
the 40 before it, or of the 1,000 before it, with costs that differ widely. No good placement of these is
known; the bound does not count what has to be sent.
"""


@frozen
class Row:
    """The results for one graph.

    Attributes:
        name: The graph.
        nodes: How many nodes it has.
        load: The max-load that the search found.
        bound: The lower bound.
        seconds: The time of the processor.
        longer: The max-load of the longer search.
    """

    name: str
    nodes: int
    load: float
    bound: float
    seconds: float
    longer: float


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--output", type=click.Path(path_type=Path), default=PAGE, help="The page.")
def main(folder: Path, output: Path) -> None:
    """Search on the published inputs in FOLDER and on made-up graphs, and write a page with the results."""
    published = [_row(name, read_json(folder / f"{name}.json")) for name in PUBLISHED]
    generated = [_row(name, make()) for name, make in GRAPHS.items()]
    output.write_text("\n".join(page(published, generated)) + "\n", encoding="utf-8")


def page(published: list[Row], generated: list[Row]) -> Iterator[str]:
    """Return the paragraphs and tables of the page."""
    yield INTRODUCTION
    yield FOR_PUBLISHED
    yield f"| graph | nodes | published | found | bound | gap | {LONG} times as long | seconds |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for row in published:
        yield f"| {row.name} | {row.nodes} | {min(PUBLISHED[row.name]):.3f} | {_figures(row)}"
    yield ""
    yield FOR_GENERATED
    yield f"| graph | nodes | found | bound | gap | {LONG} times as long | seconds |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for row in generated:
        yield f"| {row.name} | {row.nodes} | {_figures(row)}"


def _figures(row: Row) -> str:
    gap = row.load / row.bound - 1
    return f"{row.load:.3f} | {row.bound:.3f} | {gap:.1%} | {row.longer:.3f} | {row.seconds:.1f} |"


def _row(name: str, content: Mapping[str, Any]) -> Row:
    workload = workload_of(content)
    started, wall = process_time(), perf_counter()
    found = search(workload)
    seconds, wall = process_time() - started, perf_counter() - wall
    longer = search(workload, effort=LONG)
    click.echo(f"{name}: {found.max_load:.3f}, {seconds:.2f} s of the processor, {wall:.2f} s in all")
    return Row(
        name,
        len(workload.operators),
        found.max_load,
        max(found.lower_bound, longer.lower_bound),
        seconds,
        longer.max_load,
    )


if __name__ == "__main__":
    main()
