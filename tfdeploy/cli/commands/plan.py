"""`tfdeploy plan`, `why` and `diff`: where everything of a spec goes, what put it there, and what moved.

What puts an op or a variable somewhere is a rule, on some line, or a default. Between two placements, ops and
variables move, appear and vanish.
"""

from __future__ import annotations

from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

from compiler.kinds.layout import Extras
from compiler.process import collector_paused
from dsl.diagnostics import RunError, SpecError
from dsl.errors.plan import bad_trace, nothing_named
from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.files import (
    STDOUT,
    map_file,
    read_map,
    read_spec,
    require_apart,
    require_distinct,
    require_free,
    write_page,
    write_text,
)
from tfdeploy.cli.options import (
    common_options,
    emulate_option,
    file_option,
    flag,
    force_option,
    offer,
    option,
    profile_option,
    set_option,
)
from tfdeploy.own_process import keep_everything

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.kinds.kind_map import AnyMap
    from compiler.mapping.explanation import Explained
    from compiler.report.page.data import Side
    from compiler.time.forecast import StepForecast
    from compiler.time.measured_trace import Beneath, RunTrace
    from dsl import ir
    from tfdeploy.cli.building import Builder, ShownMap
    from tfdeploy.runtime.records.files import InputFiles


@frozen
class Wanted:
    """What the options ask for, whose help texts say what each means."""

    as_json: bool
    html: str | None
    open_page: bool
    dot: str | None
    trace: str | None
    measured: str | None
    ops: bool
    glob: str | None
    depth: int | None
    every_clone: bool
    run_one_step: bool
    only_misplaced: bool
    emulate: bool
    profile: str | None
    force: bool

    @property
    def results(self) -> list[str]:
        """Where results go that are not for people to read: paths of files, or `-` for standard output."""
        places = (self.html, self.dot, self.trace, STDOUT if self.as_json else None)
        return [each for each in places if each is not None]

    @property
    def outputs(self) -> list[str]:
        """The files that are to be written."""
        return [each for each in self.results if each != STDOUT]


@click.command()
@click.argument("spec", shell_complete=offer("specs_or_maps"))
@flag("--json", "as_json", "Print the placement map as JSON, as in placement.json.")
@file_option("--html", "Write the map as an HTML page; - for standard output.")
@flag("--open", "open_page", "Open the page that --html writes.")
@file_option("--dot", "Write the step as a graph for Graphviz; - for standard output.")
@file_option("--trace", "Write the forecast timeline of a step, for Perfetto; - for standard output.")
@file_option(
    "--measured",
    "Compare the forecast with profile/trace.json of a run, also on the page of --html or as --json.",
    metavar="TRACE",
)
@flag("--ops", "List every op with its device and what put it there.")
@option(
    "--filter",
    "glob",
    "Show only ops whose name, or scope, matches.",
    metavar="GLOB",
    shell_complete=offer("names"),
)
@option("--depth", "The depth to which scopes are shown; default: what fits.", type=click.IntRange(1, 1000))
@flag("--every-clone", "Show every clone, even if clones are alike; also with --json.")
@flag("--run-one-step", "Run one step on made-up examples, to see where TensorFlow really places every op.")
@flag("--only-misplaced", "Show only ops that TensorFlow has placed on another device than was requested.")
@emulate_option("one process")
@profile_option
@force_option
@common_options
def plan_command(common: Common, /, spec: str, **options: Any) -> int:
    """Build the graph of SPEC and print its placement map; nothing runs without --run-one-step.

    Exits with 1 if the placement does not meet what the spec's `expect` asks for.

    SPEC may also be - for standard input, or a placement.json or a run directory. For the latter two
    nothing is built, and TensorFlow is not started.
    """
    keep_everything()
    wanted = Wanted(**options)
    if wanted.open_page and wanted.html in (None, STDOUT):
        raise click.UsageError("--open needs --html FILE: it opens the page that this writes")
    require_distinct(wanted.results)
    if map_file(spec) is not None:
        _refuse_of_maps(wanted)
    ran = _read_trace(wanted.measured) if wanted.measured is not None else None
    if wanted.outputs:
        require_free(wanted.outputs, [str(map_file(spec) or spec)], force=wanted.force)
    shown = _shown(common, spec, wanted)
    if wanted.html is not None:
        write_page(wanted.html, _page(shown, ran), open_page=wanted.open_page)
    if wanted.dot is not None:
        write_text(wanted.dot, _graph(shown))
    if wanted.trace is not None:
        from compiler.report.timeline import trace_json

        write_text(wanted.trace, trace_json(_forecast(shown)))
    if ran is not None:
        from compiler.time.measured_trace import lay_beneath

        _show_beneath(lay_beneath(_forecast(shown), ran), as_json=wanted.as_json, color=common.color_output)
    elif wanted.as_json:
        write_result((shown.placement.expanded() if wanted.every_clone else shown.placement).to_json())
    elif not wanted.results:
        _show(shown.placement, wanted, color=common.color_output)
    _expect(shown)
    return 0


def _expect(shown: ShownMap) -> None:
    """Raise SpecError if the placement, which has been shown, is not what the spec expects."""
    if shown.plan is not None:
        from compiler.conditions import check_expectations, remedy_for

        found = check_expectations(shown.plan, shown.placement, remedy_for)
        if found:
            raise SpecError(found)


def _shown(common: Common, path: str, wanted: Wanted) -> ShownMap:
    """Return what is to be shown; raises RunError for files to write that are read, before anything is built.

    The graph of the spec is built if a step of it is to run, or if its clones are not alike.
    """
    from tfdeploy.cli.building import Builder, ShownMap

    file = map_file(path)
    if file is not None:
        if common.overrides or wanted.emulate or wanted.run_one_step or wanted.profile is not None:
            raise click.UsageError(
                f"{path} is a placement map: --set, --emulate, --run-one-step, --profile are for specs"
            )
        placement = read_map(file)
        if wanted.outputs:
            require_apart(wanted.outputs, _files_of_map(placement))
        return ShownMap(None, placement)
    spec = read_spec(path, common, stdin=True)
    if wanted.outputs:
        from tfdeploy.runtime.records.files import InputFiles

        require_apart(wanted.outputs, InputFiles.of(spec))
    builder = Builder(common, wanted.emulate, wanted.profile)
    if not wanted.run_one_step:
        extras = Extras(graph=wanted.dot is not None, costs=wanted.html is not None)
        return builder.placed(spec, extras)
    because = "a step of it runs"  # what it expects is asked after the map
    built = builder.build(spec, forecast=True, because=because)
    assigned = _one_step(built.compiled)
    return ShownMap(built.compiled.plan, built.placement(assigned), built.compiled, built.time)


def _one_step(compiled: CompiledGraph) -> dict[str, str]:
    """Run one step, and return the device that each op ran on by op name."""
    from compiler.graph.finished import in_graph
    from compiler.graph.inspect.one_step import run_one_step
    from tfdeploy.runtime.plans import require_devices

    require_devices(compiled.plan)
    return run_one_step(in_graph(compiled))


def _show(placement: AnyMap, wanted: Wanted, *, color: bool) -> None:
    from compiler.report.view import View

    if wanted.only_misplaced and not placement.ran:
        raise click.UsageError("where ops really are is known only after a step: add --run-one-step")
    width = get_terminal_size((80, 24)).columns
    view = View(wanted.depth, wanted.glob, wanted.only_misplaced, wanted.every_clone, width, color)
    if wanted.ops:
        from compiler.report.terminal import op_list

        for line in op_list(placement.expanded(), view):
            say(line)
    else:
        from compiler.report.terminal import terminal_map

        with collector_paused():
            said = terminal_map(placement, view)
        say(said, color=color, end="")


def _page(shown: ShownMap, ran: RunTrace | None) -> str:
    from compiler.report.page.data import texts_of, texts_on_disk
    from tfdeploy.looking import plan_page

    texts = texts_on_disk(shown.placement) if shown.plan is None else texts_of(shown.plan.spec)
    time = shown.time if ran is None else _forecast(shown)
    return plan_page(shown.placement, texts, shown.plan, shown.compiled, time, ran, work=shown.work)


def _files_of_map(placement: AnyMap) -> InputFiles:
    """Return the spec that a map was made from, and what it includes and names as far as it can be read."""
    from pathlib import Path

    import grammar
    from tfdeploy.runtime.records.files import InputFiles

    spec = grammar.read(placement.spec.path, allow_python=True).spec
    return InputFiles((Path(placement.spec.path),)) if spec is None else InputFiles.of(spec)


def _graph(shown: ShownMap) -> str:
    from compiler.report.dot import dot

    if shown.compiled is None:
        assert shown.step is not None  # or it has been refused
        return dot(shown.placement, shown.step)
    from compiler.kinds.step_kinds import step_kinds

    return dot(shown.placement, step_kinds(shown.compiled.sized_step))


def _forecast(shown: ShownMap) -> StepForecast:
    if shown.time is None:
        raise click.UsageError(
            "--trace and --measured need a forecast of time: run `tfdeploy calibrate` on the spec, or give "
            "the `kind` of its devices"
        )
    return shown.time


def _read_trace(path: str) -> RunTrace:
    from compiler.time.measured_trace import read_trace
    from dsl.files.typed_json import BadRecord

    try:
        found = read_trace(path)
    except BadRecord as fault:
        raise RunError(bad_trace(path=path, reason=str(fault))) from fault
    if found.steps == 0:
        raise RunError(bad_trace(path=path, reason="has no op"))
    return found


def _show_beneath(found: Beneath, *, as_json: bool, color: bool) -> None:
    from compiler.report.timeline import beneath_json, beneath_text
    from compiler.report.view import View

    if as_json:
        write_result(beneath_json(found))
        return
    for line in beneath_text(found, View(color=color)):
        say(line, color=color)


def _refuse_of_maps(wanted: Wanted) -> None:
    """Raise UsageError for what a placement map in a file does not say."""
    if wanted.dot is not None:
        raise click.UsageError("--dot needs the spec: a placement map does not say which op feeds which")
    if wanted.trace is not None or wanted.measured is not None:
        raise click.UsageError(
            "--trace and --measured need the spec: a placement map does not say when each op runs"
        )


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.argument("name", shell_complete=offer("names"))
@profile_option
@common_options
def why_command(common: Common, spec: str, name: str, *, profile: str | None) -> int:
    """Show which rule or default of SPEC placed NAME, and which rules it overrode.

    If there is a profile of the machine, it also says whether NAME is on the critical path of a step.

    NAME is an op, a variable, a layer or a glob such as 'clone_*/conv1/*', or a message of TensorFlow that
    names ops.
    """
    loaded = read_spec(spec, common, stdin=True)
    from compiler.report.view import Ink
    from compiler.report.why import why_text, why_time
    from tfdeploy.runtime.many_clones import NothingNamedError

    try:
        found, time = _explained(loaded, common, name, profile)
    except NothingNamedError as fault:
        raise RunError(nothing_named(name=name, nearest=fault.nearest)) from fault
    say(why_text(found.found, Ink(common.color_output)), color=common.color_output, end="")
    if time is not None:
        say(f"\n{why_time(found.timed, time)}", end="")
    return 0


def _explained(
    spec: ir.Spec, common: Common, name: str, profile: str | None
) -> tuple[Explained, StepForecast | None]:
    """Return what explains the places of the things with a name, and the forecast of a step if there is one.

    Raises:
        NothingNamedError: If the name names nothing.
    """
    from compiler.kinds.grid import NotAlikeError
    from tfdeploy.cli.building import Builder
    from tfdeploy.runtime.many_clones import explain_by_kinds, explain_graph

    builder = Builder(common, profile=profile)
    many = builder.many(spec)
    because = many if isinstance(many, str) else ""
    if not isinstance(many, str):
        try:
            return explain_by_kinds(many, name), many.time
        except NotAlikeError as fault:
            because = str(fault)
    built = builder.build(spec, timed=True, because=because)
    return explain_graph(built.compiled, name), built.time


# --- diff -------------------------------------------------------------------------------------------------

DIFFERENT = 1

Pairs = tuple[tuple[str, str], ...]


@click.command()
@click.argument("before", metavar="A", shell_complete=offer("specs_or_maps"))
@click.argument("after", metavar="[B]", required=False, shell_complete=offer("specs_or_maps"))
@set_option("--set-a", "set_before", "As --set, for A alone.")
@set_option("--set-b", "set_after", "As --set, for B alone.")
@flag("--json", "as_json", "Print the differences as JSON.")
@file_option("--html", "Write both placements side by side as an HTML page; - for standard output.")
@flag("--open", "open_page", "Open the page that --html writes.")
@profile_option
@force_option
@common_options
def diff_command(
    common: Common,
    before: str,
    after: str | None,
    *,
    set_before: Pairs,
    set_after: Pairs,
    as_json: bool,
    html: str | None,
    open_page: bool,
    profile: str | None,
    force: bool,
) -> int:
    """Compare the placements of A and B; exit with 1 if they differ.

    A and B are specs, placement.json files (for which TensorFlow is not started), or directories with one.
    Without B, A is compared with itself under --set-a and --set-b.
    """
    if after is None and not (set_before or set_after):
        raise click.UsageError("give B, or --set-a or --set-b to compare A with itself")
    if open_page and html in (None, STDOUT):
        raise click.UsageError("--open needs --html FILE: it opens the page that this writes")
    second = after if after is not None else before
    outputs = [html] if html is not None and html != STDOUT else []
    require_free(outputs, [str(map_file(each) or each) for each in (before, second)], force=force)
    specs = [each for each in (before, second) if map_file(each) is None]
    builder = _builder(common, profile, share=len(specs) > 1) if specs else None
    one, other = (
        _side(builder, path, more, option, outputs)
        for path, more, option in ((before, set_before, "--set-a"), (second, set_after, "--set-b"))
    )
    from compiler.report.compare import compare

    found = compare(one.placement, other.placement)
    if html is not None:
        from compiler.report.page.html import diff_page

        write_page(html, diff_page(one, other, found), open_page=open_page)
    elif as_json:
        from compiler.report.compare import diff_json

        write_result(diff_json(found))
    else:
        from compiler.report.diff_text import diff_text
        from compiler.report.view import Ink

        say(diff_text(found, Ink(common.color_output)), color=common.color_output, end="")
    return DIFFERENT if found.different else 0


def _builder(common: Common, profile: str | None, *, share: bool) -> Builder:
    from tfdeploy.cli.building import Builder
    from tfdeploy.runtime.plans import SharedTowers

    return Builder(common, profile=profile, towers=SharedTowers() if share else None)


def _side(builder: Builder | None, path: str, more: Pairs, option: str, outputs: list[str]) -> Side:
    """Return one of the placements; raises RunError for `outputs` that it is read from."""
    from compiler.report.page.data import Side, lines_of, texts_of, texts_on_disk

    file = map_file(path)
    if file is None:
        assert builder is not None
        from tfdeploy.cli.files import read_spec

        common = builder.common
        spec = read_spec(path, evolve(common, overrides=common.overrides + more))
        if outputs:
            from tfdeploy.runtime.records.files import InputFiles

            require_apart(outputs, InputFiles.of(spec))
        placement = builder.placed(spec).placement
        settings = "".join(f", {name}={value}" for name, value in more)
        return Side(path + settings, placement, lines_of(placement, texts_of(spec)))
    if more:
        raise click.UsageError(f"{option} is for specs, and {path} is a placement map")
    placement = read_map(file)
    return Side(path, placement, lines_of(placement, texts_on_disk(placement)))
