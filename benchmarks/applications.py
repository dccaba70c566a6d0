"""Every model of `keras.applications` as a spec and back: `python -m benchmarks.applications`.

Each is a process of its own, without weights from elsewhere. It writes the spec of the model, which is proved
with its outputs, a step of training and the weights after it, and the spec of the model that the spec makes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from benchmarks.figures import peak_memory
from benchmarks.race.run import ROOT, environment
from compiler.model.elaborate import elaborate
from dsl.ir import Call, Spec
from grammar import read

PAGE = ROOT / "docs" / "applications.md"
MOST_MEMORY = 20 << 30
"""The most bytes that a process may take."""
CLASSES = 10
DEVICES = {"cpu": 1}
SIZES = {"ConvNeXt": 32, "Inception": 96, "NASNet": 96, "ResNet": 64, "VGG": 32, "Xception": 96}
"""How many pixels the images have on each side, by what names begin with."""
SIZE = 64

INTRODUCTION = f"""\
<!-- Written by `python -m benchmarks.applications --page`; change that program, not this page. -->
# The models of keras.applications

`tfdeploy init --from` writes a spec of each model that Keras has, here for {CLASSES} classes and with weights
as they are initialised. The spec is compiled and gets the same images as the model. *Outputs* is the
largest difference of an output, relative to its largest number. *Step* is that of the loss and of all
weights after a step of training, in float32. A network that normalizes by the statistics of two images can
turn a difference of rounding into any other, as two runs of the model itself do whose weights differ by
rounding; so can one whose softmax gets numbers of the size of a million. Where they differ by more than 1e-4,
spec and model have therefore done all again in *float64*, in which they have to agree within 1e-6.

Then a Keras model is made of the spec, and a spec of that: *again* says whether it has the same layers with
the same arguments, called on the same values. Only names and `layer` blocks may be other ones. *Memory* is
the largest that the process took. A dash stands for what was not compared: *float64* is missing where it was
not needed, and where all three are missing, the spec was written, and nothing was computed.

```sh
python -m benchmarks.applications ResNet50     # one, or all of them, each in a process of its own
python -m benchmarks.applications NASNetLarge --written   # its spec alone, for which little memory is needed
python -m benchmarks.applications --page                  # this page
```

"""


DIFFERENCES = ("outputs", "step", "float64")
COLUMNS = ("model", "layers", "weights", "pixels", "lines", *DIFFERENCES, "again", "memory")


def outline(spec: Spec) -> list[Any]:
    """Return what a spec says, without names and blocks: calls in the order in which results need them."""
    graph = elaborate(spec)
    makers = {value: each for each in graph.calls for value in each.values}
    found: list[Any] = [[(each.dtype, each.shape) for each in graph.inputs], spec.update]
    numbers = {each.value: number for number, each in enumerate(graph.inputs)}
    layers: dict[int, int] = {}
    terms = [*graph.losses, *graph.metrics]
    wanted = [each.value for each in graph.outputs] + [each.prediction for each in terms]
    pending = [(each, False) for each in reversed(wanted)]
    while pending:
        value, ready = pending.pop()
        if value in numbers:
            continue
        call = makers[value]
        if not ready:
            pending += [(value, True), *((each, False) for each in reversed(call.inputs))]
            continue
        layer = graph.layers[call.layer]
        number = layers.setdefault(call.layer, len(layers))
        inputs = [numbers[each] for each in call.inputs]
        found.append(
            (number, layer.kind, _nameless(layer.call), inputs, call.args, call.kwargs, layer.frozen)
        )
        for each in call.values:
            numbers[each] = len(numbers)
    return [
        *found,
        [numbers[each] for each in wanted],
        [(_nameless(each.call), each.weight) for each in terms],
    ]


def _nameless(value: Any) -> Any:
    """Return a call, also inside others, without names."""
    if isinstance(value, tuple):
        return tuple(map(_nameless, value))
    if not isinstance(value, Call):
        return value
    more = {key: _nameless(each) for key, each in value.kwargs.items() if key not in {"name", "trainable"}}
    return value.name, _nameless(value.args), more


def is_first_again(folder: Path, name: str) -> bool:
    """Whether the second spec of a model says the same as the first."""
    first, second = (
        read(str(folder / f"{name}{each}.tfdeploy"), allow_python=True).spec for each in ("", ".again")
    )
    assert first is not None
    assert second is not None
    return outline(first) == outline(second)


def tried(name: str, folder: Path, *, proved: bool) -> dict[str, Any]:
    """Return what came of one model; its specs are put into a folder."""
    import keras

    from compiler.graph.storage.export import plain_model
    from compiler.graph.tower.network.keras_scope import stateless
    from compiler.pipeline import make_plan
    from tfdeploy import load
    from tfdeploy.onramp.convert import convert
    from tfdeploy.onramp.reading import config_of
    from tfdeploy.onramp.writing import draft, text_of

    options: dict[str, Any] = {"devices": DEVICES, "clones": 1}
    size = next((each for key, each in SIZES.items() if name.startswith(key)), SIZE)
    with nullcontext() if proved else stateless():  # without values, which take memory
        model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=CLASSES)
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    config, proof = config_of(model), None
    if proved:
        made = convert(model, config, source=name, stem=name, base=folder, **options)
        text, proof = made.text, made.proof
    else:
        text = text_of(draft(model, config, name), weights=None, **options)
    path, again = folder / f"{name}.tfdeploy", folder / f"{name}.again.tfdeploy"
    path.write_text(text)
    planned: Any = SimpleNamespace(plan=make_plan(load(path, allow_python=True), emulate=True), seed=1)
    back = plain_model(planned, uncreated=True).model  # for which no graph is needed
    again.write_text(text_of(draft(back, config, name), weights=None, **options))
    return {
        "name": name,
        "layers": len(model.layers),
        "weights": model.count_params(),
        "pixels": size,
        "lines": text.count("\n"),
        "outputs": None if proof is None else proof.outputs,
        "step": None if proof is None or proof.step is None else proof.rounded or proof.step.largest,
        "float64": None if proof is None or not proof.rounded else proof.largest,
        "again": is_first_again(folder, name),
        "memory": peak_memory(),
    }


def run(names: Sequence[str], folder: Path, *more: str) -> Iterator[dict[str, Any]]:
    """Yield what came of some models, each in a process that is ended if it takes too much memory."""
    for name in names:
        command = [sys.executable, "-m", "benchmarks.applications", "--alone", name]
        command += ["--folder", str(folder), *more]
        with (folder / f"{name}.log").open("w+") as log:
            began = time.monotonic()
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True
            )
            status = Path(f"/proc/{process.pid}/statm")
            ended = ""
            while process.poll() is None:
                pages = status.read_text().split() if status.exists() else []
                if len(pages) > 1 and int(pages[1]) * 4096 > MOST_MEMORY:
                    process.kill()
                    ended = f"it took more than {MOST_MEMORY >> 30} GB"
                time.sleep(0.2)
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()
            log.seek(0)
            fault = ended or (log.read().strip().splitlines() or [""])[-1]
        known = json.loads(lines[-1]) if process.returncode == 0 else {"name": name, "fault": fault}
        yield known | {"seconds": round(time.monotonic() - began)}


def table(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table of the page."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * len(COLUMNS)}"
    for each in found:
        if "fault" in each:
            yield f"| {each['name']} {'| ' * (len(COLUMNS) - 2)}| {each['fault']} |"
            continue
        differences = ("-" if each[key] is None else f"{each[key]:.0e}" for key in DIFFERENCES)
        yield (
            f"| {each['name']} | {each['layers']:,} | {each['weights']:,} | {each['pixels']} "
            f"| {each['lines']} | {' | '.join(differences)} | {'yes' if each['again'] else 'no'} "
            f"| {each['memory'] / 2**30:.1f} GiB |"
        )


@click.command()
@click.argument("names", nargs=-1)
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "applications")
@click.option("--alone", is_flag=True, hidden=True)
@click.option("--written", is_flag=True, help="Write specs alone, without weights and proof.")
@click.option("--page", is_flag=True, help="Write the page of the documentation from what is in the folder.")
def main(names: tuple[str, ...], folder: Path, *, alone: bool, written: bool, page: bool) -> None:
    """Write specs of all models of keras.applications, or of those with these NAMES."""
    folder.mkdir(parents=True, exist_ok=True)
    if alone:
        print(json.dumps(tried(names[0], folder, proved=not written)))
        return
    if page:
        found = [json.loads(each.read_text()) for each in sorted(folder.glob("*.json"))]
        for each in found:
            each["again"] = "fault" in each or is_first_again(folder, each["name"])
        PAGE.write_text(INTRODUCTION + "\n".join(table(found)) + "\n")
        return
    if not names:
        import keras

        names = tuple(each for each in dir(keras.applications) if each[0].isupper())
    for each in run(names, folder, *(["--written"] if written else [])):
        (folder / f"{each['name']}.json").write_text(json.dumps(each))
        print(json.dumps(each), flush=True)


if __name__ == "__main__":
    main()
