"""How long the zoo takes to compile, against the first `train_on_batch` of Keras.

`python -m benchmarks.compiling`, with names of models to choose some; without one, the largest are taken.
Both are what a person waits for before training: here the compile of two clones with an open session and
first values, there a step of one model, of which nearly all is the graph that Keras makes of it. Every
measurement has a process of its own, forked from one that has loaded TensorFlow and done nothing with it, and
the two sides take turns.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import click

LARGEST = ("seq2seq", "gpt", "unet", "resnet_cifar", "transformer_classifier")
RATE = 0.1


@click.command()
@click.argument("names", nargs=-1)
@click.option("--turns", default=3, show_default=True, help="How often each side is measured.")
def main(names: tuple[str, ...], turns: int) -> None:
    """Print the seconds of both sides for each model, and the ratio of ours to those of Keras."""
    import keras  # noqa: F401  # loaded once, before the forks
    import tensorflow  # noqa: F401, ICN001

    click.echo(f"{'model':24}{'compile':>9}{'keras':>9}{'ratio':>8}")
    for name in names or LARGEST:
        turned = [(_forked(_ours, name), _forked(_keras, name)) for _ in range(turns)]
        ours, theirs = (min(each) for each in zip(*turned, strict=True))
        click.echo(f"{name:24}{ours:7.2f} s{theirs:7.2f} s{ours / theirs:8.2f}")


def _forked(measure: Callable[[str], float], name: str) -> float:
    """Return what a function measures in a process of its own.

    Raises:
        click.ClickException: It failed; what it says is on standard error.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writer, json.dumps(measure(name)).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise click.ClickException(f"{name} could not be measured")
    return float(json.loads(text))


def _loaded(name: str) -> tuple[Any, Any]:
    """Return the spec of a model, and a batch for both clones."""
    import grammar
    from compiler.model.elaborate import elaborate
    from tests.zoo.test_zoo import FOLDER
    from tfdeploy.runtime.verify.examples import read_examples

    spec = grammar.load(FOLDER / f"{name}.tfdeploy", [("update.optimizer", f"SGD({RATE})")])
    assert isinstance(spec.clones.batch, int)
    return spec, read_examples(spec, elaborate(spec), 2 * spec.clones.batch, seed=0)


def _ours(name: str) -> float:
    """Return the seconds until the first step can be done."""
    from tests.support import Training

    spec, arrays = _loaded(name)
    begin = time.perf_counter()
    with Training(spec, arrays, adapt=True):
        return time.perf_counter() - begin


def _keras(name: str) -> float:
    """Return the seconds of the first `train_on_batch` of a model that has been made and built before."""
    from tests.zoo.test_zoo import twin_of

    _, arrays = _loaded(name)
    twin = twin_of(name)
    twin.variables()
    begin = time.perf_counter()
    twin.train_on_batch(arrays, RATE, eagerly=False)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
