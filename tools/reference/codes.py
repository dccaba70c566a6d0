"""The page of error codes; the page of each code is the one that `tfdeploy explain` prints."""

from __future__ import annotations

from dsl.codes import CODES, Code
from tools.reference.markdown import NOTICE, table

INTRODUCTION = """\
# Error codes

Every message has a code, and every code a page: a wrong example, a right one, and why. `tfdeploy explain TFD402` prints
the same page. Codes keep their meaning for good. Those of TFD6xx are warnings, which let a command go on; of the others some
are, and say so. [Read the errors](../how-to/errors.md) says how a message is built.

"""
SUBJECTS = {
    "1": ("Reading", "Found while the text of the spec is read."),
    "2": ("Names and structure", "Blocks, attributes and files."),
    "3": ("Types and units", "Values that do not suit their place."),
    "4": ("References", "Names, devices, layers and arguments that there are not."),
    "5": ("The plan", "Found when the graph is built: batches, shapes, placement, and what can be combined."),
    "6": ("Lint", "Warnings about what is valid and probably not meant."),
    "7": (
        "Running",
        "Data, checkpoints, and the run itself. The exit code is 2, since the spec itself is fine.",
    ),
    "9": ("The tool itself", ""),
}


def page() -> str:
    """Return the text of the page."""
    assert {code[3] for code in CODES} == {*SUBJECTS}, "a range of codes has no subject"
    return (NOTICE + INTRODUCTION + "".join(_section(digit) for digit in SUBJECTS)).rstrip("\n") + "\n"


def _section(digit: str) -> str:
    title, said = SUBJECTS[digit]
    rows = [_row(each) for code, each in CODES.items() if code[3] == digit]
    head = f"## TFD{digit}xx: {title}\n\n" + (f"{said}\n\n" if said else "")
    return head + table(["code", "name", "what it is"], rows)


def _row(code: Code) -> list[str]:
    return [f"[{code.code}](../../tfdeploy/pages/{code.code}.md)", code.name, code.title]
