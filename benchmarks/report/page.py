"""Writes the benchmark page of the documentation, and the chart on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.figures import Figures
from benchmarks.launches import BASELINE
from benchmarks.many_clones import CASES
from benchmarks.report.plot import bars
from benchmarks.report.results import Ratio, Results, Spread
from benchmarks.report.targets import TARGETS

PEERS = {
    "tutorial": "the multi-tower graph as tutorials write it: a loop over devices",
    "mirrored": "`tf.distribute.MirroredStrategy` and a custom loop, the optimizer built before tracing",
    "fit": "Keras `fit` under `MirroredStrategy`",
    "single": "one hand-written tower on the whole batch: nothing to copy and nothing to add up",
}
INTRODUCTION = """\
# Benchmarks

This page is written by `make bench`, which measures everything in one run; its data is in
[benchmarks.json](benchmarks.json). A part that was measured again by itself has its own day. All towers are
logical CPU devices of one process. Contenders have the same model, optimizer, batches and data. Each has a
process of its own; all of these are there at the same time and make steps in turn, so that whatever else the
machine does falls on all alike. (The towers of ResNet-50 do not fit into memory together: there a process
does all its turns before the next one starts.)
Figures are ratios, the median and the range over turns, rounds or runs. Unless something else is said, a
figure above 1 means that tfdeploy is better.
"""
LIMITS = """\
## What was not measured

- GPUs: there were none. Copies between devices cost next to nothing here, and all towers share the cores;
  the figures say what the graph itself costs, not how it scales on accelerators.
- Input pipelines together with training: in the races the examples are made up and small, and lie in memory.
- Convergence: all contenders do the same arithmetic, and how fast losses fall is not a matter of this page.
"""


def write_page(results: Results, folder: Path) -> None:
    """Write `benchmarks.md`, `benchmarks.json` and `benchmarks.svg` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    ratios = list(all_ratios(results))
    (folder / "benchmarks.json").write_text(results.to_json())
    (folder / "benchmarks.svg").write_text(bars(ratios))
    parts = (
        _targets(results),
        _races(results, ratios),
        _clusters(results),
        _replicas(results),
        _servers(results),
        _recomputings(results),
        _pipelinings(results),
        _readings(results),
        _builds(results),
        _many(results),
        _launches(results),
    )
    measured = [each for part in parts for each in part]
    circumstances = _machine(results) if measured else "Nothing has been measured yet.\n"
    sections = [INTRODUCTION, circumstances, *measured, LIMITS]
    (folder / "benchmarks.md").write_text("\n".join(sections))


def all_ratios(results: Results) -> Iterator[Ratio]:
    """Return the ratios of every peer to ours in every race."""
    for model, towers in dict.fromkeys((each.model, each.towers) for each in results.races):
        for peer in PEERS:
            found = {
                "steps per second": results.speed(model, towers, peer),
                "start to first step": results.saving(model, towers, peer, lambda each: each.first_step),
                "peak memory": results.saving(model, towers, peer, lambda each: each.peak_memory),
            }
            yield from (
                Ratio(model, towers, peer, measure, spread)
                for measure, spread in found.items()
                if spread is not None
            )


def _machine(results: Results) -> str:
    here = results.machine
    return (
        f"Measured on {here.date}, on {here.cores} cores and {here.memory} GiB of memory, with TensorFlow "
        f"{here.tensorflow}, Keras {here.keras} and Python {here.python}.\n"
    )


def _targets(results: Results) -> Iterator[str]:
    rows = []
    for target in TARGETS:
        found = target.measured(results)
        if found is not None:
            rows.append((target.what, target.wanted, found, "yes" if target.is_met(found) else "**no**"))
    if rows:
        yield "## Targets\n"
        yield _table(("what", "target", "measured", "reached"), rows)
    limit = results.speed("lenet", 4, "mirrored", whose="single")
    if limit is not None:
        yield (
            "What there is to reach on LeNet: one hand-written tower of the whole batch, with nothing to\n"
            f"copy and nothing to add up, made {limit} times the steps of\n"
            "`MirroredStrategy` in this run.\n"
        )


def _races(results: Results, ratios: list[Ratio]) -> Iterator[str]:
    if not ratios:
        return
    yield "## Against others\n"
    yield _table(("name", "what it is"), PEERS.items())
    measures = list(dict.fromkeys(each.measure for each in ratios))
    rows: dict[tuple[str, int, str], dict[str, Spread]] = {}
    for each in ratios:
        rows.setdefault((each.model, each.towers, each.peer), {})[each.measure] = each.spread
    yield _table(
        ("model", "towers", "against", *measures),
        ((*key, *(found.get(measure, "") for measure in measures)) for key, found in rows.items()),
    )
    for date in sorted({each.date for each in results.races if each.date}):
        races = dict.fromkeys((each.model, each.towers) for each in results.races if each.date == date)
        again = ", ".join(f"{model} with {towers}" for model, towers in races)
        yield f"Measured again on {date}, by the number of towers: {again}.\n"
    yield "![The ratios as bars](benchmarks.svg)\n"


def _clusters(results: Results) -> Iterator[str]:
    """Yield training on processes through servers, beside what TensorFlow has for it."""
    if not results.clusters:
        return
    yield "## On a cluster\n"
    yield (
        "Two workers and parameter servers as processes on loopback, each worker with a graph of its own, "
        "in turns. With `mode = async` there are two servers, the peer has as many processes, and a step is "
        "a batch of one worker. With `mode = sync` there is one server, a step is a batch of each worker, "
        "and the optimizer is gradient descent; `SyncReplicasOptimizer` has the same processes, and "
        "`MultiWorkerMirroredStrategy` the workers alone. `deep` has 75 dense layers, which are 150 small "
        "variables. `table` looks 32 numbers for each of 256 examples up in a table of 1,000,000 rows of 64, "
        "by Zipf's law; it is cut into a piece for each server, by `sharded(ps[*])` and by the strategy's "
        "partitioner, and trained by gradient descent. `python -m benchmarks --clusters` measures this part "
        f"alone.{_days(results)}\n"
    )
    rows = []
    for each in results.clusters:
        rates = (f"{median(rates):.0f}" for rates in (each.ours, each.theirs))
        rows.append((each.model, each.mode, f"`{each.peer}`", *rates, Spread.of(each.ratios)))
    yield _table(("model", "mode", "against", "steps per second", "of the peer", "ratio"), rows)


def _replicas(results: Results) -> Iterator[str]:
    """Yield training on workers that all have all weights."""
    if not results.replicas:
        return
    days = " and ".join(sorted({each.date for each in results.replicas}))
    yield "## On a cluster without servers\n"
    yield (
        "Two workers as processes on loopback, each with all weights, in turns, trained by gradient "
        "descent. A step is a batch of each worker, whose gradients tfdeploy sums by `aggregate`, and the "
        "peer by its collectives. `python -m benchmarks --replicas` measures this part alone. "
        f"Measured on {days}.\n"
    )
    rows = [
        (
            each.model,
            f"`{each.mode}`",
            f"`{each.peer}`",
            f"{median(each.ours):.0f}",
            f"{median(each.theirs):.0f}",
            Spread.of(each.ratios),
        )
        for each in results.replicas
    ]
    yield _table(("model", "aggregate", "against", "steps per second", "of the peer", "ratio"), rows)


WAYS = {
    "none": "tfdeploy, which keeps everything",
    "memory": "tfdeploy, `recompute = memory(...)`",
    "accumulate": "tfdeploy, `accumulate = 4`",
    "keras": "Keras, which keeps everything",
    "keras_remat": 'Keras, `RematScope("full")`',
    "keras_recompute_grad": "Keras, `tf.recompute_grad` around each block",
}


def _recomputings(results: Results) -> Iterator[str]:
    """Yield what recomputation saves and costs."""
    if not results.recomputings:
        return
    days = " and ".join(sorted({each.date for each in results.recomputings}))
    yield "## With less memory\n"
    yield (
        "One clone on the CPU. The Transformer has 24 blocks without dropout, which `RematScope` refuses in "
        "graphs. All ways make steps in turn, and each is compared with the same library that keeps "
        "everything. The process is the peak of its resident memory above what there was once TensorFlow was "
        "loaded; tensors are those that the allocator counts at the peak of a step, of which there is a "
        "forecast, and activations are those that neither make gradients of weights nor update weights, at "
        "their own peak. Less is better. `python -m benchmarks --recomputing` measures "
        f"this part alone. Measured on {days}.\n"
    )
    rows = []
    for each in results.recomputings:
        plain = results.recomputing(each.model, "keras" if each.way.startswith("keras") else "none")
        cells = ["fails"]
        if each.rates and plain is not None:
            time = Spread.of([b / a for a, b in zip(each.rates, plain.rates, strict=True)])
            cells = [str(time), f"{_mib(each.resident)}, {each.resident / plain.resident:.2f}"]
        if each.allocated:
            share = f"{_mib(each.activations)}, {each.activations / plain.activations:.2f}"
            cells += [_mib(each.allocated), f"{each.forecast / each.allocated:.2f}", share]
        rows.append((each.model, WAYS[each.way], *cells, *[""] * (5 - len(cells))))
    heads = ("model", "way", "time of a step", "process", "tensors", "forecast / measured", "activations")
    yield _table(heads, rows)


WITHOUT_SCHEDULE = {"none": "`accumulate` alone", "shared": "`accumulate` alone, with both threads"}


def _pipelinings(results: Results) -> Iterator[str]:
    """Yield what pipelines gain, and what they hold."""
    if not results.pipelinings:
        return
    days = " and ".join(sorted({each.date for each in results.pipelinings}))
    yield "## Pipelines\n"
    yield (
        "A Transformer of eight blocks on a group of two logical CPUs with one thread each, and eight "
        "micro-batches in a step. All ways make steps in turn, and are compared with `accumulate` alone, "
        "which takes one micro-batch after the other; 1.78 times its steps are the most that two equal "
        "stages can make if each has one thread. Logical CPUs share the threads of their session: without "
        "a schedule, in which one of them has work at a time, one thread is therefore a thread for each, "
        "and with two either computes with both, as a stage of a pipeline does while the other waits. "
        "Tensors are those that the allocator counts at the peak of a step on the first device. Times are "
        "forecast from a profile of the spec without a schedule; *waiting* is the part of a step for "
        "which stages wait by that forecast. "
        f"`python -m benchmarks --pipelining` measures this part alone. Measured on {days}.\n"
    )
    rows = []
    for each in results.pipelinings:
        share = f"{each.forecast / each.allocated:.2f}"
        name = WITHOUT_SCHEDULE.get(each.schedule, f"`schedule = {each.schedule}`")
        waits = "" if each.bubble is None else f"{each.bubble:.0%}"
        speed, time = str(results.piped(each.schedule)), f"{each.forecast_ratio:.2f}"
        rows.append((name, speed, time, waits, _mib(each.allocated), share))
    heads = (
        "schedule",
        "steps per second",
        "time, forecast / measured",
        "waiting",
        "tensors",
        "forecast / measured",
    )
    yield _table(heads, rows)


def _mib(number: int) -> str:
    return f"{number / 2**20:,.0f} MiB"


def _servers(results: Results) -> Iterator[str]:
    """Yield the memory of servers that hold a large table in pieces."""
    if not results.servers:
        return
    days = " and ".join(sorted({each.date for each in results.servers}))
    yield "## Memory of servers\n"
    yield (
        "A table of 2 GiB on two servers is initialised, trained for a few steps, saved and exported; then "
        "the run goes on, so that all is restored. Ratios are the largest peak of a server as the kernel "
        "counts it, less that of the same run with 1,000 rows (Python, TensorFlow and the graph), over the "
        "bytes of the server's own piece with its slots. Less is better. `python -m benchmarks --servers` "
        f"measures this part alone. Measured on {days}.\n"
    )
    rows = [
        (
            f"`{each.optimizer}`",
            f"{each.own >> 20:,} MiB",
            f"{each.fresh / each.own:.2f}",
            f"{each.resumed / each.own:.2f}",
        )
        for each in results.servers
    ]
    yield _table(("optimizer", "piece with slots", "trained and saved", "restored"), rows)


def _days(results: Results) -> str:
    days = sorted({each.date for each in results.clusters if each.date})
    return f" Measured on {' and '.join(days)}." if days else ""


def _readings(results: Results) -> Iterator[str]:
    """Yield how fast files are read, beside what is written by hand."""
    if not results.readings:
        return
    yield "## Reading files\n"
    yield (
        "Our sources beside pipelines of `tf.data` as they are written by hand, and TensorFlow's and "
        "Keras's own makers of pipelines. All shuffle, batch and prefetch, give the same tensors from the "
        "same files, and have turns of a second in one process, one after the other. Images are JPEG files "
        "of 256 x 256 pixels brought to 224 x 224, the digits have 65 columns. The rate is examples "
        "per second of the median turn; ratios are ours over theirs, of the rate (above 1 we are faster) and "
        "of the processor time of an example (below 1 we need less). Pipelines that leave images as "
        "floats do not round to whole numbers, and none of those by hand looks at the kind and the "
        "size of each image before it is decoded, or draws random numbers that a resumed run draws "
        "again. That is where the rest of our time goes. `resized as floats` is what ours has taught: "
        "TensorFlow resizes floats to the same bits as bytes in half of the time, so that a cast comes "
        "first. The targets are against the others. Measured on "
        f"{' and '.join(sorted({each.date for each in results.readings}))}.\n"
    )
    rows = []
    for each in results.readings:
        rate = f"{median(each.rates):,.0f}"
        if each.reader == "ours":
            rows.append((each.files, each.reader, rate, "", ""))
            continue
        faster = results.read(each.files, each.reader, lambda reading: reading.rates)
        spent = results.read(each.files, each.reader, lambda reading: reading.cpu)
        rows.append((each.files, each.reader, rate, faster, spent))
    yield _table(("files", "reader", "examples per second", "ours over it", "processor time"), rows)


def _builds(results: Results) -> Iterator[str]:
    """Yield how the time to build grows with clones and with the size of the model."""
    if not results.builds:
        return
    yield "## Time to build\n"
    yield (
        "Seconds from the text of the spec to the graph, and for the tutorial's loop from the first layer "
        "to the train op; ops of the graph.\n"
    )
    rows = []
    for model, towers in dict.fromkeys((each.model, each.towers) for each in results.builds):
        ours, tutorial = (results.built(each, model, towers) for each in ("ours", "tutorial"))
        ratio = f"{tutorial.build / ours.build:.1f}" if ours and tutorial else ""
        rows.append((model, towers, *_built(ours), *_built(tutorial), ratio))
    yield _table(("model", "clones", "seconds", "ops", "the loop: seconds", "ops", "ratio"), rows)


def _built(figures: Figures | None) -> tuple[str, str]:
    return ("", "") if figures is None else (f"{figures.build:.2f}", f"{figures.graph_ops:,}")


def _many(results: Results) -> Iterator[str]:
    """Yield what plans of many clones take."""
    if not results.many:
        return
    yield "## Plans of many clones\n"
    yield (
        "Processor time and peak memory of `tfdeploy plan` as a process, with the import of TensorFlow and "
        "the trace of the model, for ResNet-50 with 8 clones on each task: 128 clones, unless another number "
        "is said. Variables are on four servers, unless it is said where they are. The last columns are what "
        "the same took before a step was a record without TensorFlow, where that was measured. "
        "`python -m benchmarks --clones` measures this part alone. Measured on "
        f"{' and '.join(sorted({each.date for each in results.many}))}.\n"
    )
    rows = [
        (each.case, *_taken((each.seconds, each.peak)), *_taken(CASES[each.case].before))
        for each in results.many
    ]
    yield _table(("plan", "seconds", "memory", "before: seconds", "memory"), rows)


def _taken(figures: tuple[float, float] | None) -> tuple[str, str]:
    return ("", "") if figures is None else (f"{figures[0]:.0f}", f"{figures[1] / 1e9:.1f} GB")


def _launches(results: Results) -> Iterator[str]:
    if not results.launches:
        return
    yield "## Start-up of commands\n"
    yield (
        "Processor time of a command as a process, against that of importing what it is built with; "
        "here less is better.\n"
    )
    rows = []
    for each in results.launches:
        ratio = results.launched(each.command, BASELINE)
        rows.append(
            (f"`{each.command}`", f"{1000 * sorted(each.seconds)[len(each.seconds) // 2]:.0f} ms", ratio)
        )
    yield _table(("command", "processor time", "ratio"), rows)


def _table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    cells = [list(map(str, head)), *(list(map(str, row)) for row in rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    lines.insert(1, "|" + " --- |" * len(cells[0]))
    return "\n".join(lines) + "\n"
