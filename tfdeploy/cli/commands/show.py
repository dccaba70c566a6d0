"""`tfdeploy show`: what a spec comes to."""

from __future__ import annotations

import click

from grammar.unparse import unparse
from tfdeploy.cli.common import Common, write_result
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, offer


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.option("--json", "as_json", is_flag=True, help="Print the IR as JSON.")
@common_options
def command(common: Common, spec: str, *, as_json: bool) -> int:
    """Print SPEC with includes, constants, overrides and defaults filled in, as a spec."""
    loaded = read_spec(spec, common, stdin=True)
    if as_json:
        from dsl.ir.json_format import to_json  # which imports cattrs

        write_result(to_json(loaded))
    else:
        write_result(unparse(loaded))
    return 0
