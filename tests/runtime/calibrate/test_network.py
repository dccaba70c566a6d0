"""The link between two tasks, measured in a process of its own, whose servers end with it."""

from __future__ import annotations

import subprocess
import sys

from dsl.files.typed_json import parse_record
from tests.folders import ROOT
from tests.forked import Popen
from tfdeploy.runtime.calibrate.network import HERE, NetworkCosts

PROGRAM = """
from dsl.files.typed_json import to_json
from tfdeploy.runtime.calibrate.network import measure_network
print(to_json(measure_network()))
"""


def test_a_link_has_a_latency_and_a_speed() -> None:
    """Large tensors take longer than small ones, and a step of two tasks takes time without any."""
    process = Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    found = parse_record(out.splitlines()[-1], NetworkCosts)
    assert found.start > 0
    assert found.processors > 0
    assert found.link.kind == "network"
    assert found.link.latency >= 0
    assert found.link.bytes_per_second is not None
    assert 0 < found.link.bytes_per_second < 1e12
    assert found.link.message >= 0
    assert found.link.processors > 0  # both tasks copy what is sent
    assert HERE == "127.0.0.1"
