"""`tfdeploy show`: what it shows stands alone, and its JSON is the IR; `test_light.py` has its output."""

import json

import grammar
from tests.cli.conftest import Command
from tests.cli.test_light import MODEL, PARTS
from tests.support import ir_of


def test_what_is_shown_is_a_spec_that_shows_itself(command: Command) -> None:
    """Without includes and constants, in the one style, and without errors."""
    command.write("spec.tfdeploy", PARTS)
    command.write("parts/model.tfdeploy", MODEL)
    shown = command("show", "spec.tfdeploy", "--set", "let.towers=4").out
    command.write("shown.tfdeploy", shown)
    assert command("show", "shown.tfdeploy").out == shown
    assert command("check", "shown.tfdeploy").code == 0
    assert command("fmt", "--check", "shown.tfdeploy").code == 0


def test_json_is_the_ir(command: Command) -> None:
    """`--json` prints the IR with its format version, from which an equal IR is made."""
    path = command.write("spec.tfdeploy", PARTS)
    command.write("parts/model.tfdeploy", MODEL)
    done = command("show", "spec.tfdeploy", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["format_version"] == "1.0"
    assert ir_of(done.out) == grammar.load(str(path))
