"""`tfdeploy compile`: the graph of a spec as files, for other programs to run."""

from __future__ import annotations

from pathlib import Path

import click

from tfdeploy.cli.common import Common, say
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, emulate_option, force_option, offer


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="The folder for graph.pb, placement.json and spec.tfdeploy.",
)
@emulate_option("one process")
@force_option
@common_options
def command(common: Common, spec: str, *, out: Path, emulate: bool, force: bool) -> int:
    """Build the graph of SPEC and write it to DIR; nothing is run and no data is read."""
    loaded = read_spec(spec, common)
    from tfdeploy.cli.building import Builder, start
    from tfdeploy.runtime.records.files import GRAPH_FILES, InputFiles, require_free_folder

    reading = InputFiles.of(loaded)
    for name in GRAPH_FILES:
        reading.require_not_input(out / name)
    require_free_folder(out, force=force)
    start(common)  # quietly, before conditions on a graph import TensorFlow
    from compiler.conditions.expect import needs_memory, needs_time, require_expectations

    built = Builder(common, emulate).build(loaded, forecast=needs_memory(loaded) or needs_time(loaded))
    from compiler.graph.finished import in_graph  # after TensorFlow has been started, quietly
    from tfdeploy.runtime.trained.trained import write_graph

    require_expectations(built.compiled, built.memory, built.map_time())
    for path in write_graph(in_graph(built.compiled), built.placement(), out):
        say(path)
    return 0
