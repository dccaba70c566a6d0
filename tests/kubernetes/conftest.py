"""Specs of clusters, and the manifests that the command writes for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen
from click.testing import CliRunner

from tests.specs import CLASSES
from tfdeploy.cli.group import load

BLOCKS = """
data {{
  train = {data}
}}

devices {{
{jobs}
}}

update {{ mode = {mode}, optimizer = SGD(0.1) }}
train {{ steps = 4{train} }}
"""
JOBS = '  job "ps" { tasks = 2 }\n  job "worker" { tasks = 3, gpu = 2 }'
CSV = 'csv("data/train.csv", x = "[abcd]", label = "label")'


@frozen
class Exporting:
    """`tfdeploy export --kubernetes` on a spec in a folder of the test's own."""

    folder: Path

    def write(self, *, jobs: str = JOBS, mode: str = "async", data: str = CSV, train: str = "") -> Path:
        """Write the spec."""
        path = self.folder / "My_Digits.tfdeploy"
        path.write_text(CLASSES + BLOCKS.format(jobs=jobs, mode=mode, data=data, train=train))
        return path

    def run(self, *options: str, **parts: str) -> Any:
        """Return what the command did; without `--memory` among the options, pods ask for 2 GiB."""
        if "--memory" not in options and "forecast" not in options:
            options = (*options, "--memory", "2GiB")
        arguments = [
            str(self.write(**parts)),
            "--kubernetes",
            "--image",
            "example.org/tfdeploy",
            "--runs",
            "runs",
        ]
        return CliRunner().invoke(load("export"), [*arguments, *options], standalone_mode=False)

    def manifests(self, *options: str, **parts: str) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the manifests on standard output by kind and name."""
        done = self.run(*options, **parts)
        assert (done.stderr, done.exception, done.return_value) == ("", None, 0)
        found = list(yaml.safe_load_all(done.stdout))
        by_name = {(each["kind"], each["metadata"]["name"]): each for each in found}
        assert len(by_name) == len(found)
        return by_name


@pytest.fixture
def export(tmp_path: Path) -> Exporting:
    """Export specs in a temporary folder."""
    return Exporting(tmp_path)


@pytest.fixture
def container_of() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that gives the only container of a Job, or of a replica of a TFJob."""

    def found(owner: dict[str, Any]) -> dict[str, Any]:
        template = owner["spec"]["template"] if "spec" in owner else owner["template"]
        (container,) = template["spec"]["containers"]
        return dict(container)

    return found
