"""`tfdeploy verify`: whether every layout of a spec computes the same."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import Finite, common_options, flag, offer, option
from tfdeploy.progress import busy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfdeploy.runtime.verify import Outcome, Verification

DIFFERENT = 1


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@flag("--quick", "Try a sample in which every choice occurs, in place of every combination.")
@option("--steps", "How many steps each combination is trained.", type=click.IntRange(2, 10**6), default=5)
@flag("--synthetic", "Train on made-up examples in place of the spec's own data.")
@option(
    "--tolerance",
    "The largest relative difference that passes.  [default: by the precision]",
    type=Finite(min=0, min_open=True),
    metavar="RATIO",
)
@flag("--launch", "Run the combinations for clusters on processes of this machine.")
@flag("--kill", "Kill one of these processes in each combination, once (--launch).")
@flag("--json", "as_json", "Print every combination as JSON.")
@common_options
def command(
    common: Common,
    spec: str,
    *,
    quick: bool,
    steps: int,
    synthetic: bool,
    tolerance: float | None,
    launch: bool,
    kill: bool,
    as_json: bool,
) -> int:
    """Train SPEC for a few steps in every layout that is allowed, and compare the results.

    Every update mode, aggregation, placement of variables, packing and number of clones (1, 2, 3, 4, 8, with
    equal and unequal batches) runs on logical CPU devices of this process and is compared with one tower on
    the whole batch; `async` and `local` are compared with single towers in turn, or averaged. Dropout and
    other random layers are switched off, because every clone draws its own numbers. Devices, clones and
    placement of the spec are replaced; the rest of `update` is kept. With `--launch`, two parameter servers
    and two workers are started as processes, and every way of training on them is compared in the same way.
    With `--kill` as well, one of them is killed after the first step of each combination, which must then end
    in an error, not in a wait, and come to the same when the process is back and it is begun again.
    Exits with 1 if a difference is larger than rounding explains.
    """
    if kill and not launch:
        raise click.UsageError("--kill is about the processes of --launch")
    loaded = read_spec(spec, common)
    from tfdeploy.runtime.start_tensorflow import start_telling

    start_telling(verbose=common.verbose)
    from compiler.figures import plural
    from tfdeploy.runtime.verify import Options, Verification, report

    def tell(text: str, *, err: bool = False, flush: bool = False) -> None:
        if not common.quiet:
            say(text, err=err, flush=flush)

    flags = ("--allow-python",) if common.allow_python else ()
    options = Options(
        steps, quick, synthetic, tolerance, launch, kill, flags, lambda text: tell(text, err=True)
    )
    with busy(f"training {loaded.model.name} as one tower"):
        verification = Verification(loaded, options)
    outcomes: list[Outcome] = []
    if as_json:
        with busy(f"training {plural(len(verification.selected.cases), 'combination')}"):
            outcomes += verification.outcomes()
        write_result(report.to_json(verification, outcomes) + "\n")
    else:
        for line in report.heading(verification):
            tell(line)
        for line in report.rows(_kept(verification, outcomes), verification.tolerance):
            tell(line, flush=True)
        for line in report.summary(verification, outcomes):
            say(line)
    agrees = all(each.differences.largest <= verification.tolerance for each in outcomes)
    return 0 if agrees else DIFFERENT


def _kept(verification: Verification, into: list[Outcome]) -> Iterator[Outcome]:
    """Yield the outcomes and keep them; a terminal shows which one is being waited for."""
    number = len(verification.selected.cases)
    with closing(verification.outcomes()) as outcomes:
        for at in range(1, number + 1):
            with busy(f"combination {at} of {number}", plain=False):
                into.append(next(outcomes))
            yield into[-1]
