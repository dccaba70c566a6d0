"""What a spec sets, by the paths that `--set` takes."""

from pathlib import Path

import pytest

import grammar
from grammar.overrides import settings
from tests.folders import ROOT

EXAMPLES = [
    ROOT / "examples" / name for name in ("digits.tfdeploy", "cifar10.tfdeploy", "recommender.tfdeploy")
]


def of(text: str) -> dict[str, str]:
    """Return the settings of a text."""
    return settings(grammar.read("spec.tfdeploy", text=text).trees[0].items)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda each: each.stem)
def test_each_is_a_path_of_set(path: Path) -> None:
    """Setting every single value again leaves the spec as it is."""
    reading = grammar.read(path)
    found = settings(reading.trees[0].items)
    inner = {each for each in found if not any(other.startswith(f"{each}.") for other in found)}
    taken = [
        (name, value)
        for name, value in found.items()
        if name in inner and not name.startswith(("place", "expect")) and " -> " not in value
        and not name.rpartition(".")[2].isdigit() and "[" not in name
    ]  # fmt: skip
    assert len(taken) > 20
    for each in taken:
        again = grammar.read(path, [each])
        assert again.spec == reading.spec, each


def test_calls_flows_and_rules() -> None:
    """A call is its name and its arguments; equal steps are numbered; rules are together."""
    found = of("""tfdeploy = 1
model "m" {
  x = input(float32, [2])
  y = x -> Dense(3) -> Dense(4, name = "last") -> Dense(units = 5)
}
devices {
  job "worker" { tasks = 2 }
}
layer "twice" { input = a
  output = a -> Dense(6) }
update { optimizer = SGD(Cosine(0.1,
  decay_steps = 9)) }
place {
  clones -> cpu[*]
  variables -> cpu[0]
}
""")
    assert found["model.y"] == "x -> Dense -> last -> Dense"
    assert [found[f"model.y.{each}.units"] for each in ("Dense[0]", "last", "Dense[1]")] == ["3", "4", "5"]
    assert found["layer.twice.output.Dense.units"] == "6"
    assert found["update.optimizer"] == "SGD"
    assert found["update.optimizer.learning_rate"] == "Cosine"
    assert found["update.optimizer.learning_rate.decay_steps"] == "9"
    assert found["devices.worker.tasks"] == "2"
    assert found["place"] == "clones -> cpu[*]; variables -> cpu[0]"
