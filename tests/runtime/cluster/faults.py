"""A run on a cluster of processes that are killed, stopped and started late.

`python -m tests.runtime.cluster.faults [MODE...]` prints what was done to which task, and how the run ended,
for both replications and both modes. Every task is killed with SIGKILL once, one is stopped for 20 seconds,
and one is started late. Exit code 1 where a run does not end with the exact step count, loses more than the
steps since the last checkpoint, or leaves a process.
"""

import json
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from attrs import define, field

from tests.runtime.tasks import Process, free_ports
from tfdeploy.runtime.records.store import Store

SPEC = """
tfdeploy = 1

model "small" {{
  image = input(float32, [64])
  digit = input(int32, [])
  logits = image -> Dense(32, activation = relu, name = "hidden") {normalized}-> Dense(4, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}}

data {{
  train = {train}
}}

devices {{
  {servers}
  job "worker" {{ hosts = {worker} }}
}}

clones {{ batch = 16 }}
{place}
update {{ optimizer = Momentum(0.01, momentum = 0.9), {update} }}
train {{
  steps = {steps}
  checkpoint_every = {every}
  log_every = 5
  task_timeout = 120s
  directory = "run"
}}
"""
SYNTHETIC = "synthetic(4096, image = feature(float32, [64]), digit = feature(int32, classes = 4)) -> cache()"
PACED = """
import time
from pathlib import Path

import numpy as np

HURRY = Path(__file__).with_name("hurry")


class Examples:
    def __len__(self):
        return 256

    def __iter__(self):
        images = np.random.default_rng(1).random((len(self), 64), dtype=np.float32)
        for number, image in enumerate(images):
            if number % 16 == 0 and not HURRY.exists():
                time.sleep({pace})
            yield {{"image": image, "digit": np.int32(number % 4)}}
"""
"""Examples that come slowly until a file is there, so that few steps are made while tasks start again."""

PATIENCE = 240.0
STARTING = 600.0
ENOUGH = {False: 1_500, True: 20_000}  # steps, by whether others go on while one task is missing
MODES = {
    "in graph, sync": "mode = sync",
    "in graph, async": "mode = async, replication = in_graph",
    "in graph, local": "mode = local, replication = in_graph, average_every = 7",
    "between graphs, sync": "replication = between_graph",
    "between graphs, backup": "replication = between_graph, backup = 1",
    "between graphs, async": "mode = async",
    "between graphs, staleness": "mode = async, staleness = 2",
    "all weights, add_n": "replication = between_graph",
    "all weights, ring": "replication = between_graph, aggregate = ring",
    "all weights, synchronized": "replication = between_graph, batch_norm = synchronized",
    "all weights, slots cut": "replication = between_graph, clip = global_norm(1.0), ema = 0.9",
    "all weights, local": "replication = between_graph, mode = local, average_every = 7",
    "all weights, power_sgd": "replication = between_graph, compress = power_sgd(rank = 2)",
}
REPLICATED = "place {{ variables -> replicated{} }}"


@define
class FaultyRun:
    """A cluster of two parameter servers and some workers, each task a process that is started again."""

    folder: Path
    update: str
    steps: int = 4000
    every: int = 100
    workers: int = 2
    pace: float = 0.1  # seconds between two batches of a worker, if it has a graph of its own
    servers: int = 2  # without any, each worker has all weights
    cut: bool = False  # whether each clone has a part of the slots
    tasks: dict[str, Process] = field(factory=dict)
    began: float = field(factory=time.monotonic)
    told: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        ports = free_ports(self.servers + self.workers)
        hosts = [f"127.0.0.1:{port}" for port in ports]
        (self.folder / "paced.py").write_text(PACED.format(pace=self.pace))
        self.spec.write_text(
            SPEC.format(
                train='python("paced:Examples")' if self.between else SYNTHETIC,
                servers=f'job "ps" {{ hosts = {json.dumps(hosts[: self.servers])} }}' if self.servers else "",
                worker=json.dumps(hosts[self.servers :]),
                place="" if self.servers else REPLICATED.format("\n  slots -> sharded(clones)\n" * self.cut),
                normalized="-> BatchNormalization() " if "batch_norm" in self.update else "",
                update=self.update,
                steps=self.steps,
                every=self.every,
            )
        )

    @property
    def spec(self) -> Path:
        """The spec's file."""
        return self.folder / "spec.tfdeploy"

    @property
    def between(self) -> bool:
        """Whether every worker has a graph of its own."""
        return self.update != MODES["in graph, sync"] and "in_graph" not in self.update

    @property
    def names(self) -> list[str]:
        """All processes: tasks, and in one graph the client."""
        tasks = [
            *(f"ps:{index}" for index in range(self.servers)),
            *(f"worker:{index}" for index in range(self.workers)),
        ]
        return tasks if self.between else [*tasks, "client"]

    @property
    def leader(self) -> str:
        """The process that keeps the checkpoints and ends with the result."""
        return "worker:0" if self.between else "client"

    def start(self, *names: str) -> None:
        """Start processes."""
        for name in names:
            trains = name == "client" or (self.between and name.startswith("worker"))
            arguments = ["compile-and-run" if trains else "serve", str(self.spec)]
            arguments += ["--task", name] if name != "client" else []
            arguments += ["--json"] if trains else []
            arguments += ["--allow-python"] if self.between else []
            self.tasks[name] = Process(["-m", "tfdeploy", *arguments], {}, self.folder)
            self.tell(f"start {name}")

    def tell(self, what: str) -> None:
        """Take down what is done, with the step that training is at."""
        self.told.append(f"{time.monotonic() - self.began:6.1f} s  step {self.step():5}  {what}")

    def step(self) -> int:
        """Return the newest step in the history of the run."""
        history = self.folder / "run" / "history.jsonl"
        lines = history.read_text().splitlines() if history.exists() else []
        return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)

    def saved(self) -> int:
        """Return the step of the newest checkpoint that counts, which it does not as soon as it has files."""
        return max((each.step for each in Store(self.folder / "run" / "checkpoints").whole()), default=0)

    def up(self) -> None:
        """Wait until all processes that were started are there, however long that takes."""
        for name, each in self.tasks.items():
            each.until("compiled in" if name == "client" else "listens", STARTING)

    def until(self, step: int) -> None:
        """Wait until training has come to a step; patience counts from when all are there."""
        self.up()
        end = time.monotonic() + PATIENCE
        while self.step() < step:
            self.read()
            if time.monotonic() > end:
                raise TimeoutError(f"step {step} was not reached:\n{self.report()}")
            time.sleep(0.1)

    def read(self) -> None:
        """Take what processes have written, so that none waits for a reader; none may have failed."""
        for name, each in self.tasks.items():
            each.read()
            if each.process.poll() not in {None, 0}:
                raise AssertionError(f"{name} has ended:\n{each.text}")

    def kill(self, name: str, pause: float = 0.0) -> None:
        """End a process with SIGKILL, start it again after a pause, and wait until training goes on."""
        before, saved = self.step(), self.saved()
        said = 0 if name == self.leader else len(self.beginnings())
        self.tell(f"kill {name}, the newest checkpoint is of step {saved}")
        self.tasks[name].close()
        time.sleep(pause)
        self.start(name)
        self.goes_on(before, saved, said)

    def goes_on(self, before: int, saved: int, said: int) -> None:
        """Wait until training has come further than `before`; check that it began no earlier than `saved`.

        `said` is how many times it had begun until then. Patience counts from when all are there.
        """
        self.up()
        end = time.monotonic() + PATIENCE
        while self.step() <= before and not self.is_over():
            self.read()
            if time.monotonic() > end:
                raise TimeoutError(f"training does not go on after step {before}:\n{self.report()}")
            time.sleep(0.05)
        self.read()
        least = before if not (self.servers or self.cut) else saved
        lost = [step for step in self.beginnings()[said:] if step < least]
        if lost:
            raise AssertionError(f"went back to {lost[0]}, although step {least} was not lost")

    def beginnings(self) -> list[int]:
        """Return the steps from which the present leader has begun to train."""
        found = re.findall(r"going on from step ([\d,]+)", self.tasks[self.leader].text)
        return [int(each.replace(",", "")) for each in found]

    def hold(self, name: str, seconds: float) -> None:
        """Stop a process for a while and let it go on."""
        before, saved, said = self.step(), self.saved(), len(self.beginnings())
        self.tell(f"stop {name} for {seconds:.0f} s")
        self.tasks[name].process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()
            time.sleep(0.1)
        self.tasks[name].process.send_signal(signal.SIGCONT)
        self.tell(f"continue {name}")
        self.goes_on(before, saved, said)

    def is_over(self) -> bool:
        """Whether the process that leads the training has ended."""
        return self.tasks[self.leader].process.poll() is not None

    def finish(self) -> dict[str, object]:
        """Let examples come fast, and wait until all processes have ended; return the result of the run."""
        (self.folder / "hurry").touch()
        end = time.monotonic() + PATIENCE
        while any(each.process.poll() is None for each in self.tasks.values()):
            self.read()
            if time.monotonic() > end:
                raise TimeoutError(f"some did not end:\n{self.report()}")
            time.sleep(0.1)
        self.read()
        self.tell("all ended")
        codes = {name: each.process.returncode for name, each in self.tasks.items()}
        assert codes == dict.fromkeys(codes, 0), self.report()
        result: dict[str, object] = json.loads(self.tasks[self.leader].lines[-1])
        return result

    def report(self) -> str:
        """Return what was done, and what the processes said in the end."""
        said = [f"--- {name}\n" + "\n".join(each.lines[-25:]) for name, each in self.tasks.items()]
        return "\n".join([*self.told, *said])

    def end(self) -> None:
        """End what is left."""
        for each in self.tasks.values():
            each.close()


def main(*chosen: str) -> int:
    """Make everything that can happen to a task happen to each, in every mode; return the exit code."""
    worst = 0
    for title, update in MODES.items():
        if chosen and title not in chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            run = FaultyRun(
                Path(folder),
                update,
                steps=ENOUGH["async" in title],
                servers=0 if "all weights" in title else 2,
                cut="slots cut" in title,
            )
            late = "worker:1"
            try:
                run.start(*(name for name in run.names if name != late))
                time.sleep(8)
                run.start(late)
                run.until(200)
                for name in run.names:
                    if name != "client":
                        run.kill(name, pause=1.0)
                if not run.between:
                    run.kill("client", pause=1.0)
                run.hold("worker:1", 20)
                assert not run.is_over(), "the run was over before everything had happened"
                result = run.finish()
                fine = result["steps"] == run.steps and result["status"] == "finished"
            except (AssertionError, TimeoutError) as error:
                print(error)  # noqa: T201 it is a script
                fine = False
            finally:
                run.end()
            print(f"{title}: {'fine' if fine else 'FAILED'}", *run.told, sep="\n  ", flush=True)  # noqa: T201 as above
            worst = max(worst, int(not fine))
    return worst


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
