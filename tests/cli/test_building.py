"""`plan`, `diff` and `why` build no graph of many clones that are alike."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

import tfdeploy
from compiler.graph import many_clones
from compiler.graph.tower.trace import Tracer
from tests.cli.conftest import Command
from tfdeploy.cli.building import TAKES_LONG, said_of_graph

SPEC = """
tfdeploy = 1

model "small" {
  x = input(float32, [4])
  y = input(float32, [1])
  z = x -> Dense(1, name = "z")
  loss = [y, z] -> MeanSquaredError()
}
devices { gpu = 30, gpu_memory = 50B }
clones { batch = 2 }
place {
  variables -> cpu[0]
}
update { optimizer = SGD(0.1) }
"""
MEMORY = ", gpu_memory = 50B"
NAME = "small.tfdeploy"


@pytest.fixture
def without_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no graph of all clones be built."""
    monkeypatch.setattr("compiler.graph.build.compile_step", None)


def data_of(page: str) -> Any:
    """Return the data in a page."""
    begin = '<script type="application/json" id="data">'
    return json.loads(page.partition(begin)[2].partition("</script>")[0])


@pytest.mark.usefixtures("without_graph")
def test_many_clones_are_shown_without_their_graph(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of two and of three clones are built; what the spec expects is asked of all."""
    built: list[int] = []
    compile_step = many_clones.compile_step

    def noted(plan: Any, **words: Any) -> Any:
        built.append(len(plan.towers))
        return compile_step(plan, **words)

    monkeypatch.setattr(many_clones, "compile_step", noted)
    command.write(NAME, f"{SPEC}expect {{ traffic(gpu[*], cpu[0]) <= 500B }}\n")
    done = command("plan", NAME)
    assert built == [2, 3]
    assert "clones 0..29 on gpu[0..29], 2 examples each" in done.out
    assert "clone_0..29/" in done.out
    assert "a step needs 80 B on each of `gpu[0..29]`, 30 B more than `gpu_memory`" in done.err
    assert "it is 720 B a step" in done.err  # 20 bytes of gradients and 4 of the loss, from each


@pytest.mark.parametrize("gpus", [2, 30])
def test_two_specs_with_one_model_are_traced_once(
    gpus: int, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`diff` traces a tower of two examples, and the one that evaluates; a third only for another batch."""
    traced: list[int | None] = []
    trace = Tracer.trace

    def noted(tracer: Tracer, size: int | None, **words: Any) -> Any:
        traced.append(size)
        return trace(tracer, size, **words)

    monkeypatch.setattr(Tracer, "trace", noted)
    command.write(NAME, SPEC.replace(MEMORY, "").replace("30", str(gpus)))
    more = ("--set-b", f"devices.gpu={gpus + 1}")
    assert command("diff", NAME, *more).out.startswith(f"clones: {gpus} -> {gpus + 1}\n")
    assert traced == [2, None]
    command("diff", NAME, *more, "--set-b", "clones.batch=3")
    assert traced == [2, None, 2, None, 3]


def test_the_hardware_that_a_spec_names_is_the_source_of_a_forecast(command: Command) -> None:
    """Also if a graph of its few clones is built; there is no profile here."""
    command.write(NAME, SPEC.replace(f"30{MEMORY}", "2, kind = v100"))
    assert json.loads(command("plan", NAME, "--emulate", "--json").out)["time"]["source"] == "v100"


@pytest.mark.usefixtures("without_graph")
def test_the_time_of_many_clones_is_forecast_without_their_graph(command: Command) -> None:
    """The table has how busy devices are, `expect` asks for the time, and the page has the costs of ops."""
    command.write(NAME, SPEC.replace("gpu = 30", "gpu = 30, kind = v100") + "expect { step_time <= 1us }")
    done = command("plan", NAME)
    assert "an estimate for the hardware `v100`" in done.out
    assert done.out.splitlines()[4].endswith("busy")
    assert "clone_" in done.out
    assert "TFD536" in done.err
    command("plan", NAME, "--html", "small.html")
    text = command.read("small.html")
    assert '"measures":["ops","held","flops","bytes","time"]' in text
    data = data_of(text)
    assert any(flops and time for _, flops, _, time in data["costs"])
    assert "gpu[29]" in [row["label"] for row in data["step"]["rows"]]


@pytest.mark.usefixtures("without_graph")
def test_the_page_of_many_clones_has_costs_and_model_without_a_forecast(command: Command) -> None:
    """Also the page that Python writes. Clones multiply [2, 4] and [4, 1], and 30 gradients are summed."""
    path = command.write(NAME, SPEC.replace(MEMORY, ""))
    command("plan", str(path), "--html", "small.html")
    page = command.read("small.html")
    assert page == tfdeploy.to_html(tfdeploy.load(path))
    data = data_of(page)
    assert data["measures"] == ["ops", "held", "flops", "bytes"]
    assert {2 * 2 * 4 * 1, 29 * 4} <= {flops for _, flops, _, _ in data["costs"]}
    assert [each[0] for each in data["model"]["boxes"]] == ["x", "y", "z", "loss/mean_squared_error"]


@pytest.mark.full
@pytest.mark.usefixtures("without_graph")
def test_why_of_many_clones_needs_no_graph_of_them(command: Command) -> None:
    """The rule is that of any clone; whether it takes time is said of the task that is in the forecast."""
    hosts = ", ".join(f'"w{at}:1"' for at in range(12))
    jobs = f'job "ps" {{ hosts = ["a:1"] }}\n  job "worker" {{\n    hosts = [{hosts}]\n    gpu = 2\n  }}'
    spec = SPEC.replace(f"gpu = 30{MEMORY}", f"kind = v100\n  {jobs}")
    command.write(NAME, spec.replace("variables -> cpu[0]", "variables -> ps[0].cpu[0]"))
    said = {}
    for at in (17, 23):
        first, *_, said[at] = command("why", NAME, f"clone_{at}/z/MatMul").out.splitlines()
        assert first == f"clone_{at}/z/MatMul is on worker[{at // 2}].gpu[1]"
    assert "the critical path" in said[23]
    assert said[17] == said[23]
    done = command("why", NAME, "z/Matmul")
    assert "TFD759" in done.err
    assert "the nearest names are `z/MatMul`" in done.err


def test_why_the_graph_of_many_clones_is_built_is_said_while_that_takes_long() -> None:
    """Up to 32 clones it takes no time that asks for a reason, and without a reason none is given."""
    plain = "building the graph of m"

    def plan(clones: int) -> Any:
        model = SimpleNamespace(name="m")
        return SimpleNamespace(spec=SimpleNamespace(model=model), all_towers=[None] * clones)

    assert said_of_graph(plan(TAKES_LONG), "it runs") == plain
    assert said_of_graph(plan(1 + TAKES_LONG), None) == plain
    assert said_of_graph(plan(1024), "it runs") == (
        "building the graph of all 1,024 clones of m, because it runs"
    )
