"""Search for the split of a published input with the lowest max-load: `python -m benchmarks.placement`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

import click

from benchmarks.placement.files import InputError, read_json, split_of, workload_of
from compiler.search.search import search

TIME = 6.0
"""The seconds after which a search is ended, on a machine that does much else; it may end a little later."""


@click.command()
@click.argument("input_", metavar="INPUT.json", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Write the split into this file.")
def main(input_: Path, out: Path | None) -> None:
    """Read an input, search, write the split, and print its max-load and the seconds as a line of JSON."""
    started = perf_counter()
    try:
        content = read_json(input_)
        found = search(workload_of(content), hurry=lambda: perf_counter() - started > TIME)
    except (InputError, ValueError) as error:
        raise click.ClickException(f"{input_}: {error}") from error
    if found.missing:
        click.echo(f"{input_}: nothing fits; {found.missing:,.0f} bytes are missing", err=True)
    if out is not None:
        out.write_text(json.dumps(split_of(content, found.places)) + "\n", encoding="utf-8")
    seconds = round(perf_counter() - started, 3)
    click.echo(json.dumps({"input": str(input_), "max_load": found.max_load, "seconds": seconds}))
    sys.exit(1 if found.missing else 0)


if __name__ == "__main__":
    main()
