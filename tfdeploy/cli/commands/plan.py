"""`tfdeploy plan`: where everything of a spec goes, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from attrs import field, frozen

from compiler.kinds.records.extras import Extras
from dsl.diagnostics import RunError, SpecError
from tfdeploy.cli.common import Common
from tfdeploy.cli.maps import map_file, read_map
from tfdeploy.cli.options import common_options, force_option, offer, profile_option
from tfdeploy.cli.outputs import STDOUT, require_apart, require_distinct, require_free, write_page, write_text
from tfdeploy.cli.terminal import say, write_result
from tfdeploy.own_process import keep_everything

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compiler.graph.compiled import CompiledGraph
    from compiler.kinds.records.kind_map import AnyMap
    from compiler.kinds.records.step_kinds import StepKinds
    from compiler.mapping.records import PlacementMap
    from compiler.plan import Plan
    from compiler.report.view import View
    from compiler.time.forecast import StepForecast
    from compiler.time.measured_trace import Beneath, RunTrace
    from compiler.time.work import StepWork
    from tfdeploy.runtime.records.outputs import InputFiles


@frozen
class LoadedPlacement:
    """A placement map, and what was read, built and forecast for it.

    Attributes:
        placement: The map.
        texts: The text of each file of the spec, by the name that the map has for it.
        plan: The plan, or None if the map is from a file.
        compiled: The graph; None for a map from a file, or of many clones that are alike.
        time: The forecast of the time of a step, or None.
        step: The ops of a step of many clones that are alike and the tensors between them, if they are drawn.
        work: What each op of a step of many clones that are alike costs, if the page shows it.
    """

    placement: AnyMap = field(repr=False)
    texts: Mapping[str, str] = field(repr=False)
    plan: Plan | None = field(default=None, repr=False)
    compiled: CompiledGraph | None = field(default=None, repr=False)
    time: StepForecast | None = field(default=None, repr=False)
    step: StepKinds | None = field(default=None, repr=False)
    work: StepWork | None = field(default=None, repr=False)


@click.command()
@click.argument("spec", shell_complete=offer("specs_or_maps"))
@click.option(
    "--json", "as_json", is_flag=True, help="Print the placement map as JSON, as in placement.json."
)
@click.option(
    "--html",
    metavar="FILE",
    shell_complete=offer("files"),
    help="Write the map as an HTML page; - for standard output.",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page that --html writes.")
@click.option(
    "--dot",
    metavar="FILE",
    shell_complete=offer("files"),
    help="Write the step as a graph for Graphviz; - for standard output.",
)
@click.option(
    "--trace",
    metavar="FILE",
    shell_complete=offer("files"),
    help="Write the forecast timeline of a step, for Perfetto; - for standard output.",
)
@click.option(
    "--measured",
    metavar="TRACE",
    shell_complete=offer("files"),
    help="Compare the forecast with profile/trace.json of a run, also on the page of --html or as --json.",
)
@click.option("--ops", is_flag=True, help="List every op with its device and what put it there.")
@click.option(
    "--filter",
    "glob",
    metavar="GLOB",
    shell_complete=offer("names"),
    help="Show only ops whose name, or scope, matches.",
)
@click.option(
    "--depth", type=click.IntRange(min=1), help="The depth to which scopes are shown; default: what fits."
)
@click.option(
    "--every-clone", is_flag=True, help="Show every clone, even if clones are alike; also with --json."
)
@click.option(
    "--run-one-step",
    is_flag=True,
    help="Run one step on made-up examples, to see where TensorFlow really places every op.",
)
@click.option(
    "--only-misplaced",
    is_flag=True,
    help="Show only ops that TensorFlow has placed on another device than was requested.",
)
@click.option(
    "--emulate", is_flag=True, help="Make every declared device a logical CPU device of one process."
)
@profile_option
@force_option
@common_options
def command(
    common: Common,
    spec: str,
    *,
    as_json: bool,
    html: str | None,
    open_page: bool,
    dot: str | None,
    trace: str | None,
    measured: str | None,
    ops: bool,
    glob: str | None,
    depth: int | None,
    every_clone: bool,
    run_one_step: bool,
    only_misplaced: bool,
    emulate: bool,
    profile: str | None,
    force: bool,
) -> int:
    """Build the graph of SPEC and print its placement map; nothing runs without --run-one-step.

    Exits with 1 if the placement does not meet what the spec's `expect` asks for.

    SPEC may also be - for standard input, or a placement.json or a run directory. For the latter two
    nothing is built, and TensorFlow is not started.
    """
    keep_everything()
    if open_page and html in (None, STDOUT):
        raise click.UsageError("--open needs --html FILE: it opens the page that this writes")
    results = [each for each in (html, dot, trace, STDOUT if as_json else None) if each is not None]
    require_distinct(results)
    if map_file(spec) is not None:
        _refuse_of_maps(graph=dot is not None, times=trace is not None or measured is not None)
    ran = _read_trace(measured) if measured is not None else None
    outputs = [each for each in results if each != STDOUT]
    if outputs:
        require_free(outputs, [str(map_file(spec) or spec)], force=force)
    loaded = _subject(
        common,
        spec,
        outputs=tuple(outputs),
        emulate=emulate,
        run_one_step=run_one_step,
        profile=profile,
        extras=Extras(graph=dot is not None, costs=html is not None),
    )
    if html is not None:
        write_page(html, _page(loaded, ran), open_page=open_page)
    if dot is not None:
        write_text(dot, _graph(loaded))
    if trace is not None:
        write_text(trace, _timeline(loaded))
    if ran is not None:
        from compiler.time.measured_trace import lay_beneath

        _show_beneath(lay_beneath(_forecast(loaded), ran), as_json=as_json, color=common.color_output)
    elif as_json:
        write_result((_expanded(loaded.placement) if every_clone else loaded.placement).to_json())
    elif html is None and dot is None and trace is None:
        from compiler.report.view import View

        view = View(depth, glob, only_misplaced, every_clone, _width(), common.color_output)
        _show(loaded.placement, view, ops=ops)
    _expect(loaded)
    return 0


def _expect(loaded: LoadedPlacement) -> None:
    """Raise SpecError if the placement, which has been shown, is not what the spec expects."""
    if loaded.plan is not None:
        from compiler.conditions.expect import check_expectations

        found = check_expectations(loaded.plan, loaded.placement)
        if found:
            raise SpecError(found)


def _subject(
    common: Common,
    path: str,
    *,
    outputs: tuple[str, ...],
    emulate: bool,
    run_one_step: bool,
    profile: str | None,
    extras: Extras,
) -> LoadedPlacement:
    """Return what is to be shown; raises RunError for `outputs` that are read, before anything is built.

    The graph of the spec is built if a step of it is to run. Else `extras` says what is wanted beside the map
    of many clones that are alike.
    """
    from compiler.report.page.data import spec_lines

    file = map_file(path)
    if file is not None:
        if common.overrides or emulate or run_one_step or profile is not None:
            raise click.UsageError(
                f"{path} is a placement map: --set, --emulate, --run-one-step, --profile are for specs"
            )
        placement = read_map(file)
        if outputs:
            require_apart(outputs, _files_of_map(placement))
        return LoadedPlacement(placement, spec_lines.texts_on_disk(placement))
    from tfdeploy.cli.files import read_spec

    spec = read_spec(path, common, stdin=True)
    if outputs:
        from tfdeploy.runtime.records.outputs import InputFiles

        require_apart(outputs, InputFiles.of(spec))
    from tfdeploy.cli.building import build, build_map

    if not run_one_step:
        shown = build_map(spec, common, emulate=emulate, profile=profile, extras=extras)
        texts = spec_lines.texts_of(spec)
        return LoadedPlacement(
            shown.placement, texts, shown.plan, shown.compiled, shown.time, shown.step, shown.work
        )
    built = build(  # what it expects is asked after the map
        spec, common, emulate=emulate, forecast=True, profile=profile, because="a step of it runs"
    )
    assigned = _one_step(built.compiled, common)
    placement, plan = built.placement(assigned), built.compiled.plan
    return LoadedPlacement(placement, spec_lines.texts_of(spec), plan, built.compiled, built.time)


def _one_step(compiled: CompiledGraph, common: Common) -> dict[str, str]:
    """Run one step, and return the device that each op ran on by op name."""
    from compiler.graph.inspect.devices.one_step import run_one_step
    from tfdeploy.runtime.plans import require_devices

    require_devices(compiled.plan, verbose=common.verbose)
    return run_one_step(compiled)


def _expanded(placement: AnyMap) -> PlacementMap:
    from compiler.kinds.expanding.expand import expand

    return expand(placement)


def _has_run(placement: AnyMap) -> bool:
    """Whether a step has shown where ops are; a map by kinds is made before anything runs."""
    from compiler.kinds.records.kind_map import KindMap

    return not isinstance(placement, KindMap) and any(op.assigned for op in placement.ops)


def _show(placement: AnyMap, view: View, *, ops: bool) -> None:
    if view.only_misplaced and not _has_run(placement):
        raise click.UsageError("where ops really are is known only after a step: add --run-one-step")
    if ops:
        from compiler.report.text.oplist import op_list

        for line in op_list(_expanded(placement), view):
            say(line)
    else:
        from compiler.report.text.terminal import terminal_map

        say(terminal_map(placement, view), color=view.color, end="")


def _page(loaded: LoadedPlacement, ran: RunTrace | None) -> str:
    from tfdeploy.plan_page import plan_page

    time = loaded.time if ran is None else _forecast(loaded)
    return plan_page(
        loaded.placement, loaded.texts, loaded.plan, loaded.compiled, time, ran, work=loaded.work
    )


def _files_of_map(placement: AnyMap) -> InputFiles:
    """Return the spec that a map was made from, and what it includes and names as far as it can be read."""
    from pathlib import Path

    import grammar
    from tfdeploy.runtime.records.outputs import InputFiles

    spec = grammar.read(placement.spec.path, allow_python=True).spec
    return InputFiles((Path(placement.spec.path),)) if spec is None else InputFiles.of(spec)


def _graph(loaded: LoadedPlacement) -> str:
    from compiler.kinds.records.kind_map import KindMap
    from compiler.report.dot import dot, dot_of_kinds

    if isinstance(loaded.placement, KindMap):
        assert loaded.step is not None  # or it has been refused
        return dot_of_kinds(loaded.placement, loaded.step)
    assert loaded.compiled is not None
    from compiler.graph.inspect.step.ops import step_graph

    return dot(loaded.placement, step_graph(loaded.compiled))


def _timeline(loaded: LoadedPlacement) -> str:
    from compiler.report.timeline import trace_json

    return trace_json(_forecast(loaded))


def _forecast(loaded: LoadedPlacement) -> StepForecast:
    if loaded.time is None:
        raise click.UsageError(
            "--trace and --measured need a forecast of time: run `tfdeploy calibrate` on the spec, or give "
            "the `kind` of its devices"
        )
    return loaded.time


def _read_trace(path: str) -> RunTrace:
    from compiler.time.measured_trace import read_trace
    from dsl.errors.planning.time import bad_trace
    from dsl.files.typed_json import BadRecord

    try:
        found = read_trace(path)
    except BadRecord as fault:
        raise RunError(bad_trace(path, str(fault))) from fault
    if found.steps == 0:
        raise RunError(bad_trace(path, "has no op"))
    return found


def _show_beneath(found: Beneath, *, as_json: bool, color: bool) -> None:
    from compiler.report.text.beneath_text import beneath_json, beneath_text
    from compiler.report.view import View

    if as_json:
        write_result(beneath_json(found))
        return
    for line in beneath_text(found, View(color=color)):
        say(line, color=color)


def _refuse_of_maps(*, graph: bool, times: bool) -> None:
    """Raise UsageError for what a placement map in a file does not say."""
    if graph:
        raise click.UsageError("--dot needs the spec: a placement map does not say which op feeds which")
    if times:
        raise click.UsageError(
            "--trace and --measured need the spec: a placement map does not say when each op runs"
        )


def _width() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).columns
