"""What no memory can hold is refused before anything is allocated, at its place in the spec."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.room import require_room, variable_bytes
from compiler.graph.tower.traces import Traces
from compiler.step.read.memory import forecast_memory
from dsl.diagnostics import Diagnostic
from tests import forked
from tests.graphs import graph_of
from tests.support import marked, refusal_of, spec_of
from tfdeploy.runtime.trained.trained import TrainedModel
from tfdeploy.runtime.verify.trial import TrialSetup

LITTLE_MEMORY = """
import resource
import sys
from tfdeploy.cli import main

LIMIT = 6 << 30
resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
sys.argv = ["tfdeploy", "compile-and-run", "big.tfdeploy"]
main()
"""
TEXT = """
tfdeploy = 1
model "m" {{
  x = input(float32, [4])
  y = input(float32, [1])
  z = x -> Dense({first}, name = "first") -> Dense({second}, name = "second") -> Dense(1, name = "last")
  loss = [y, z] -> MeanSquaredError()
}}
data {{ train = synthetic(16, x = feature(float32, [4]), y = feature(float32, [1])) }}
devices {{ cpu = 2 }}
clones {{ count = 2, batch = {batch} }}
update {{ optimizer = Adam(0.1), ema = 0.9 }}
train {{ steps = 1, summaries = none, directory = "run" }}
"""


def graph(first: int, second: int, batch: int = 4) -> CompiledGraph:
    """Return the graph of two wide layers; nothing of it is run."""
    spec = spec_of(TEXT.format(first=first, second=second, batch=batch))
    return graph_of(spec, emulate=True)


def refused(action: Callable[[], object]) -> Diagnostic:
    """Return the one error with which `action` is refused."""
    found = refusal_of(action)
    assert found.code == "TFD546"
    assert found.span is not None
    return found


def test_what_no_process_can_hold() -> None:
    """A kernel of 10^16 numbers is refused when the graph is built, for any machine, at its layer."""
    found = refused(lambda: graph(10**8, 10**8))
    assert found.message.startswith("the variables of the model take 35.5 PiB")
    assert 'name = "second"' in found.span.text


def test_what_any_large_machine_could_hold_is_forecast() -> None:
    """A kernel of 100 TiB is planned, and its step forecast, without memory for it."""
    made = graph(5_000_000, 5_000_000)
    assert sum(variable_bytes(made).values()) > 4 * 4 * 5_000_000**2  # with two slots and an average
    assert sum(each.bytes for each in forecast_memory(made.step).values()) > 4 * 5_000_000**2


def test_room_is_asked_for_to_the_byte() -> None:
    """Variables with slots and averages must fit, and beside them the largest tensor of a clone's batch."""
    made = graph(1000, 10, batch=1000)
    variables = 4 * 4 * (4 * 1000 + 1000 + 1000 * 10 + 10 + 10 + 1) + 8  # and the global step
    assert sum(variable_bytes(made).values()) == variables
    largest = 4 * 1000 * 1000
    require_room(made, variables + largest)
    batch = refused(lambda: require_room(made, variables + largest - 1))
    assert marked(batch) == "1000"
    layer = refused(lambda: require_room(made, variables - 1))
    assert layer.text.startswith("its `second/kernel` is `[1000, 10]`")


def test_tasks_count_if_they_share_this_machine() -> None:
    """The variables of a cluster's tasks need room here only if the tasks are started here."""
    devices = """devices {{ job "ps" {{ tasks = 1 }}
  job "worker" {{ tasks = 2 }} }}
place {{ variables -> ps[*] }}"""
    spec = spec_of(TEXT.replace("devices {{ cpu = 2 }}", devices).format(first=1000, second=10, batch=4))
    made = graph_of(spec)
    everything = sum(variable_bytes(made).values())
    require_room(made, 1)
    layer = refused(lambda: require_room(made, everything - 1, launched=True))
    assert layer.text.startswith("its `second/kernel`")


@pytest.mark.parametrize("way", ["trained.trained", "verify.trial"])
def test_every_command_that_runs_a_model_asks(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint of a machine with more memory, and a comparison, are refused before a session."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"tfdeploy.runtime.{way}.memory_limit", lambda: 1000)
    spec = spec_of(TEXT.format(first=1000, second=10, batch=4))
    if way == "trained.trained":
        (tmp_path / "run" / "checkpoints").mkdir(parents=True)
        (tmp_path / "run" / "checkpoints" / "model.ckpt-1.index").touch()
        refused(lambda: TrainedModel.load(spec, lambda _: None))
    else:
        setup = TrialSetup(Traces(str(tmp_path)), 1, {})
        refused(lambda: setup.compile(spec))


@pytest.mark.family(every=2)
@pytest.mark.parametrize(("first", "batch", "place"), [(300_000, 4, "5:"), (8, 60_000, "10:")])
def test_a_process_with_little_memory_ends_with_a_diagnostic(
    first: int, batch: int, place: str, tmp_path: Path
) -> None:
    """Neither too large a layer nor too large a batch ends a run by a signal or with a traceback."""
    (tmp_path / "big.tfdeploy").write_text(TEXT.format(first=first, second=30_000, batch=batch).lstrip())
    done = forked.run([sys.executable, "-c", LITTLE_MEMORY], cwd=tmp_path, text=True)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "error[TFD546]" in done.stderr
    assert f"big.tfdeploy:{place}" in done.stderr


def test_averages_are_beside_the_first_copy() -> None:
    """Of a variable with a copy on each device there is one average."""
    copied = TEXT.format(first=8, second=4, batch=4) + "place { variables -> replicated }\n"
    found = [
        variable_bytes(graph_of(spec_of(copied, update__ema=ema), emulate=True)) for ema in ("none", "0.9")
    ]
    weights = 4 * (4 * 8 + 8 + 8 * 4 + 4 + 4 + 1)
    more = {device: held - found[0][device] for device, held in found[1].items()}
    assert more == {"cpu[0]": weights, "cpu[1]": 0}
