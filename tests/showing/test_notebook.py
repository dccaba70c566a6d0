"""The notebook of the examples runs from top to bottom, and what its cells end with shows itself."""

from __future__ import annotations

import ast
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tensorflow.python.framework.config import disable_op_determinism

from tests.folders import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = ROOT / "examples"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells, in their order, in a copy of the folder that it stands in."""
    shutil.copy(EXAMPLES / "digits.tfdeploy", tmp_path)
    shutil.copytree(EXAMPLES / "data" / "digits", tmp_path / "data" / "digits")
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
    titles = [each._repr_html_().partition("</strong>")[0].partition("<strong>")[2] for each in shown]
    assert titles == [
        "spec digits.tfdeploy",
        "plan of digits.tfdeploy",
        "placement of digits.tfdeploy: sync, in_graph, add_n, mean",
        "conv1/kernel is on cpu[0]",
        "digits.tfdeploy compared with digits.tfdeploy",
        "finished at step 60",
    ]
    assert shown[-1]._repr_html_().count("<svg") == 2
    assert losses[1e-2] < losses[1e-4]


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last line, which a notebook shows."""
    body = ast.parse(source).body
    end = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), names)  # noqa: S102  # running the cells is the point
    return None if end is None else eval(compile(ast.Expression(end.value), "<cell>", "eval"), names)  # noqa: S307
