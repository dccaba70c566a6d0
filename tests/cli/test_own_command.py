"""A command is added by the places that CONTRIBUTING lists: a file, and a row in the table of commands."""

import sys
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from tests.cli.test_fuzz import line_of
from tfdeploy.cli import group
from tfdeploy.cli.common import Common, say
from tfdeploy.cli.options import common_options


@click.command()
@click.argument("spec")
@common_options
def command(common: Common, spec: str) -> int:
    """Say the name of SPEC."""
    say(f"{spec}, quietly" if common.quiet else spec)
    return 1


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add it: the module of its file, and its row."""
    module = ModuleType("own")
    module.command = command  # type: ignore[attr-defined] # as the file would have it
    monkeypatch.setitem(sys.modules, "tfdeploy.cli.commands.say_name", module)
    monkeypatch.setitem(group.COMMANDS, "say-name", "Say the name of a spec.")


def test_it_runs_with_the_common_options() -> None:
    """By its name, with its exit code; it is listed, named for a similar word, and tried with a spec."""
    run = CliRunner().invoke
    done = run(group.tfdeploy, ["say-name", "a.tfdeploy", "-q"], standalone_mode=False)
    assert (done.output, done.return_value) == ("a.tfdeploy, quietly\n", 1)
    assert "Say the name of a spec." in run(group.tfdeploy, ["--help"]).output
    assert "a command with a similar name: say-name" in run(group.tfdeploy, ["say-nome"]).output
    assert line_of("say-name") == "say-name spec.tfdeploy"
