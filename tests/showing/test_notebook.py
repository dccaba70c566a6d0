"""The notebook of the examples runs from top to bottom, and what its cells end with shows itself."""

import ast
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tensorflow.python.framework.config import disable_op_determinism

from tests.folders import ROOT

EXAMPLES = ROOT / "examples"
TITLES = [
    "spec digits.tfdeploy",
    "plan of digits.tfdeploy",
    "placement of digits.tfdeploy: sync, in_graph, add_n, mean",
    "conv1/kernel is on cpu[0]",
    "digits.tfdeploy compared with digits.tfdeploy",
    "finished at step 60",
]
"""The titles of what the cells show, all but the last one's losses."""


@pytest.mark.full
@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells, in their order, in a copy of the folder that it stands in."""
    _copy_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    disable_op_determinism()  # which another test of this process may have left on
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], len({each["id"] for each in notebook["cells"]})) == (
        4,
        len(notebook["cells"]),
    )
    names: dict[str, Any] = {"__name__": "__main__"}
    ends = [_run("".join(each["source"]), names) for each in notebook["cells"] if each["cell_type"] == "code"]
    assert all(each["outputs"] == [] for each in notebook["cells"] if each["cell_type"] == "code")
    *shown, losses = ends
    assert [_title(each._repr_html_()) for each in shown] == TITLES
    assert shown[-1]._repr_html_().count("<svg") == 2
    assert losses[1e-2] < losses[1e-4]


@pytest.mark.full
def test_the_notebook_runs_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in a real kernel: nothing is printed, and Jupyter gets the tables of the cells."""
    import nbformat  # it and Jupyter's client take long to import
    from nbclient import NotebookClient

    _copy_folder(tmp_path)
    kernel = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    described = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    described.parent.mkdir(parents=True)
    described.write_text(json.dumps({**kernel, "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))  # before what the user has installed
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call] # it has no types
    nbformat.validate(notebook)
    folder = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(notebook, timeout=300, resources=folder)
    cells = [each for each in client.execute().cells if each.cell_type == "code"]
    assert [one.output_type for each in cells for one in each.outputs] == ["execute_result"] * len(cells)
    *shown, losses = (each.outputs[0].data for each in cells)
    assert [_title(each["text/html"]) for each in shown] == TITLES
    assert shown[-1]["text/html"].count("<svg") == 2
    found = ast.literal_eval(losses["text/plain"])
    assert found[1e-2] < found[1e-4]


def _copy_folder(folder: Path) -> None:
    """Copy what the notebook needs beside it into another folder."""
    shutil.copy(EXAMPLES / "digits.tfdeploy", folder)
    shutil.copytree(EXAMPLES / "data" / "digits", folder / "data" / "digits")


def _title(html: str) -> str:
    return html.partition("</strong>")[0].partition("<strong>")[2]


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last line, which a notebook shows."""
    body = ast.parse(source).body
    end = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), names)  # noqa: S102  # running the cells is the point
    return None if end is None else eval(compile(ast.Expression(end.value), "<cell>", "eval"), names)  # noqa: S307
