"""The reference says what the tool does: generated pages are up to date, and what else it says holds."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tensorflow.python.framework.config import disable_op_determinism

import tfdeploy
from compiler.graph.build import compile_graph
from compiler.graph.inspect.placement_map import map_placement
from compiler.pipeline import make_plan
from compiler.towers import DEFAULT_BATCH
from dsl.schema import BLOCKS
from tests.docs.frames import tutorial
from tests.docs.pages import DOCS
from tests.docs.sessions import DIGITS
from tests.docs.test_schemas import validator
from tests.specs import CLASSES
from tests.support import spec_of
from tfdeploy.cli.group import COMMANDS, load
from tools import make_reference
from tools.reference import notes

FILES = DOCS / "reference" / "files.md"
SMALL = f"{CLASSES}update {{ optimizer = SGD(0.1) }}\n"


def test_generated_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """They are what `python -m tools.make_reference` writes; run that where this fails."""
    assert (make_reference.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_notes_are_about_what_there_is() -> None:
    """No note is left over from an attribute or block that is gone."""
    attributes = {f"{block.name}.{name}" for block in BLOCKS.values() for name in block.names}
    assert notes.DEFAULTS.keys() <= attributes
    assert notes.BLOCKS.keys() == BLOCKS.keys()


def test_the_number_of_examples_by_default_is_what_the_note_says() -> None:
    """Where neither `batch` nor `global_batch` is given."""
    assert notes.DEFAULTS["clones.batch"] == str(DEFAULT_BATCH)


def test_defaults_of_placement_are_those_of_the_table() -> None:
    """With no rule at all, everything is where the page says that it goes by default."""
    spec = spec_of(f"{SMALL}devices {{ gpu = 2, cpu = 2 }}\n")
    placement = map_placement(compile_graph(make_plan(spec, emulate=True)))
    defaults = {op.rule.text for op in placement.ops if op.rule.reason == "default"}
    text = (DOCS / "reference" / "place-and-expect.md").read_text()
    rows = dict(re.findall(r"^\| (\w+) \| `?([^|`]+?)`?(?:,[^|]*)? \|$", text, re.MULTILINE))
    assert {f"{role} -> {rows[role]}" for role in ("variables", "inputs", "summaries")} <= defaults
    assert f"clones -> {rows['clones']}" in defaults
    assert {op.requested for op in placement.ops if op.role == "evaluation"} >= {"gpu[0]"}


# --- files of a run ---------------------------------------------------------------------------------------


def fields(heading: str) -> set[str]:
    """Return the names in the first column of the table under a heading of the page on files."""
    section = FILES.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    first = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    return {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a short run of the tutorial's spec."""
    folder = tmp_path_factory.mktemp("run")
    for name in ("train.csv", "test.csv"):
        shutil.copy(DIGITS / name, folder / name)
    (folder / "digits.tfdeploy").write_text(tutorial())
    directory = folder / "run"
    spec = tfdeploy.load(folder / "digits.tfdeploy", {"train.steps": 20, "train.directory": str(directory)})
    disable_op_determinism()  # which another test of this process may have left on
    tfdeploy.run(spec)
    return directory


def test_files_of_a_run_are_those_of_the_page(run_directory: Path) -> None:
    """Every file and folder is in the table, and the other way round."""
    section = FILES.read_text().split("\n## ")[0]
    named = {
        name.split("/")[0]
        for name in re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)))
    }
    assert {path.name for path in run_directory.iterdir()} == named


def test_fields_of_a_run_are_those_of_the_page(run_directory: Path) -> None:
    """History, result and map have the fields that the page lists, and no others."""
    lines = [json.loads(line) for line in (run_directory / "history.jsonl").read_text().splitlines()]
    assert {key for line in lines for key in line} == fields("history.jsonl")
    assert json.loads((run_directory / "result.json").read_text()).keys() == fields("result.json")
    placement: dict[str, Any] = json.loads((run_directory / "placement.json").read_text())
    assert placement.keys() == fields("placement.json")
    text = FILES.read_text()
    for part in ("devices", "variables", "clones", "ops", "transfers"):
        row = next(line for line in text.splitlines() if line.startswith(f"| `{part}` |"))
        assert placement[part][0].keys() == set(re.findall(r"`(\w+)`", row)) - {part}
    assert {op["role"] for op in placement["ops"]} <= set(re.findall(r"`(\w+)`", text))


def test_files_of_a_run_meet_their_schemas(run_directory: Path) -> None:
    """Those that a real run has written."""
    validator("result").validate(json.loads((run_directory / "result.json").read_text()))
    validator("placement").validate(json.loads((run_directory / "placement.json").read_text()))
    for line in (run_directory / "history.jsonl").read_text().splitlines():
        validator("history").validate(json.loads(line))


def test_fields_of_messages_are_those_of_the_page(tmp_path: Path) -> None:
    """`check --format json` has the fields that the page lists."""
    path = tmp_path / "wrong.tfdeploy"
    path.write_text(SMALL.replace("Dense", "Dens"))
    found = json.loads(CliRunner().invoke(load("check"), [str(path), "--format", "json"]).stdout)
    assert found.keys() == fields("Messages as JSON")
    row = next(line for line in FILES.read_text().splitlines() if line.startswith("| `diagnostics` |"))
    assert found["diagnostics"][0].keys() == set(re.findall(r"`(\w+)`", row)) - {"diagnostics"}


# --- nothing left out -------------------------------------------------------------------------------------


def test_the_page_on_python_has_every_public_name() -> None:
    """What `import tfdeploy` offers is described."""
    text = (DOCS / "how-to" / "python.md").read_text()
    missing = {name for name in tfdeploy.__all__ if not re.search(rf"\b(?:tfdeploy\.)?{name}\b", text)}
    assert missing - {"Diagnostic"} == set()


def test_every_command_is_shown_at_work() -> None:
    """Tutorial or how-tos have a command line of each command."""
    pages = [DOCS / "tutorial.md", *(DOCS / "how-to").glob("*.md")]
    text = "".join(path.read_text() for path in pages)
    assert [name for name in COMMANDS if not re.search(rf"tfdeploy {name}(?![\w-])", text)] == []
