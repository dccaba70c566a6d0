"""`why` as a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.test_plan import SPEC

if TYPE_CHECKING:
    from tests.cli.conftest import Command


def test_a_variable_and_the_rule_that_was_beaten(command: Command) -> None:
    """The deciding rule and the one that it beat are shown where they stand in the spec."""
    command.write("small.tfdeploy", SPEC)
    done = command("why", "small.tfdeploy", "logits/kernel")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "logits/kernel is on gpu[1]\n"
        "  VarHandleOp, variable\n"
        "  --> small.tfdeploy:16:3\n"
        "   |\n"
        "15 |   variables -> cpu[0]\n"
        "   |   ------------------- matches too, and comes earlier\n"
        '16 |   variables("logits/*") -> gpu[1]\n'
        "   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ placed by this rule\n"
    )


def test_a_name_that_nothing_bears(command: Command) -> None:
    """An unknown name ends with 2 and the nearest names."""
    command.write("small.tfdeploy", SPEC)
    done = command("why", "small.tfdeploy", "logit/kernel")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        "error[TFD759]: `logit/kernel` names no op or variable\n"
        "  = note: the nearest names are `logits/kernel`"
    )


def test_a_spec_with_errors(command: Command) -> None:
    """A spec with errors ends with 1 before anything is explained."""
    command.write("small.tfdeploy", SPEC.replace("momentum = 0.9", "momentun = 0.9"))
    done = command("why", "small.tfdeploy", "logits/kernel")
    assert (done.code, done.out) == (1, "")
    assert "momentun" in done.err
