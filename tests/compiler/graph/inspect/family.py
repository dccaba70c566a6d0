"""Specs of all kinds of placements, made from numbers: member 17 is the same in every run."""

from collections.abc import Sequence

import numpy as np
from attrs import define, field

from compiler import topology
from compiler.model.elaborate import elaborate
from compiler.plan import Plan
from compiler.towers import lay_out_towers
from tests.support import spec_of

MODELS = (
    'x -> Dense(3, activation = relu, name = "fc1") -> Dense(2, name = "fc2")',
    'x -> Dense(4, name = "fc1") -> BatchNormalization(name = "norm") -> Dense(2, name = "fc2")',
    'word -> Embedding(9, 3, name = "fc1") -> Flatten(name = "flat") -> Dense(2, name = "fc2")',
    'x -> Reshape([2, 2], name = "fc1") -> SimpleRNN(2, name = "fc2")',
)
GLOBS = ("fc1/*", "fc2/*", "*", "*/MatMul", "loss/*", "gradients/*", "metrics/*")
OPTIMIZERS = ("SGD(0.1)", "Momentum(0.1)", "Adam(0.01)")


@define
class Member:
    """One spec under construction; `cpus` and `all` are names of devices that its rules may use."""

    number: int
    draw: np.random.Generator = field(init=False)
    devices: str = ""
    cpus: list[str] = field(factory=list)
    all: list[str] = field(factory=list)
    group: int = 1
    rules: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.draw = np.random.default_rng(self.number)
        (self._this_machine, self._gpus, self._cluster)[self.number % 3]()

    def spec(self) -> str:
        """Return the text of the spec."""
        model = MODELS[self.number % len(MODELS)]
        given = "word = input(int32, [3])" if "word" in model else "x = input(float32, [4])"
        self._rules(recurrent="RNN" in model)
        rules = "\n  ".join(self.rules)
        count = f"count = {1 + self.number % 8}" if self._often() else ""
        return f"""tfdeploy = 1
model "m" {{
  {given}
  label = input(int32, [])
  y = {model}
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics {{ accuracy = [label, y] -> SparseCategoricalAccuracy() }}
}}
devices {{
  {self.devices}
}}
clones {{
  {count}
  batch = 2
}}
place {{
  {rules}
}}
update {{
  optimizer = {self._one(OPTIMIZERS)}
  {"ema = 0.9" if self._rarely() else ""}
}}
train {{
  seed = 1
  summaries = {self._one(["none", "scalars", "gradients", "all"])}
}}
"""

    # --- devices ------------------------------------------------------------------------------------------

    def _this_machine(self) -> None:
        count = self._number(1, 6)
        self.devices = f"cpu = {count}"
        self.cpus = self.all = [f"cpu[{index}]" for index in range(count)]

    def _gpus(self) -> None:
        cpus, gpus = self._number(1, 3), self._number(1, 6)
        self.devices = f"cpu = {cpus}\n  gpu = {gpus}"
        self.cpus = [f"cpu[{index}]" for index in range(cpus)]
        self.all = [*self.cpus, *(f"gpu[{index}]" for index in range(gpus))]

    def _cluster(self) -> None:
        servers, workers, gpus = self._number(1, 4), self._number(1, 3), self._number(0, 3)
        gpu = f", gpu = {gpus}" if gpus else ""
        self.devices = f'job "ps" {{ tasks = {servers} }}\n  job "worker" {{ tasks = {workers}{gpu} }}'
        self.cpus = [f"ps[{task}]" for task in range(servers)]
        self.cpus += [f"worker[{task}].cpu[0]" for task in range(workers)]
        own = [f"worker[{task}].gpu[{index}]" for task in range(workers) for index in range(gpus)]
        self.all = [*self.cpus, *own]

    # --- rules --------------------------------------------------------------------------------------------

    def _rules(self, *, recurrent: bool) -> None:
        """Write rules for every role, some of them; those with globs come twice where they can."""
        if self._often():
            self.rules.append(f"clones -> {self._clones()}")
        if self._often():
            self.rules.append(f"variables -> {self._variables()}")
        if self._often():
            layer = "fc2" if recurrent else "fc1"
            self.rules.append(f'variables("{layer}/*") -> {self._variables()}')
        for role in ("slots", "updates"):
            if self._rarely():
                self.rules.append(f"{role} -> {self._set(self.all)}")
        if self._rarely():
            self.rules.append(f"inputs -> {self._set(self.cpus)}")
        for role, targets in (("evaluation", self.all), ("summaries", self.cpus)):
            if self._rarely():
                self.rules.append(f"{role} -> {self._one(targets)}")
        for glob in self.draw.permutation(GLOBS)[: self._number(0, 4)]:
            there = str(glob).replace("MatMul", "while") if recurrent else glob  # which multiplies in a loop
            self.rules.append(f'ops("{there}") -> {self._ops()}')

    def _clones(self) -> str:
        if self._rarely() and len(self.all) > 1:
            self.group = self._number(1, min(4, len(self.all)) + 1)
            return f"groups({self._set(self.all, least=self.group)}, size = {self.group})"
        return self._set(self.all)

    def _variables(self) -> str:
        kind = self._one(["set", "balanced", "round_robin", "sharded", "replicated", "member"])
        if kind in {"balanced", "round_robin", "sharded"}:
            return f"{kind}({self._set(self.all)})"
        if kind == "member":
            return f"group[{self._number(0, self.group)}]"
        return "replicated" if kind == "replicated" else self._set(self.all)

    def _ops(self) -> str:
        return f"group[{self._number(0, self.group)}]" if self._rarely() else self._set(self.all)

    def _set(self, names: Sequence[str], least: int = 1) -> str:
        count = max(least, self._number(1, 4))
        chosen = [str(each) for each in self.draw.permutation(list(names))[:count]]
        return chosen[0] if len(chosen) == 1 else f"[{', '.join(chosen)}]"

    # --- chance -------------------------------------------------------------------------------------------

    def _number(self, low: int, high: int) -> int:
        """Return a number from `low` to below `high`."""
        return int(self.draw.integers(low, high))

    def _one(self, choices: Sequence[str]) -> str:
        return choices[self._number(0, len(choices))]

    def _often(self) -> bool:
        return bool(self.draw.random() < 0.7)

    def _rarely(self) -> bool:
        return bool(self.draw.random() < 0.3)


def plan_of(number: int) -> Plan:
    """Return the plan of a member, every declared device and task being emulated in one process."""
    spec = spec_of(Member(number).spec())
    devices = topology.declare(spec.devices, 0)
    return Plan(spec, elaborate(spec), devices, lay_out_towers(spec, devices), emulate=True)
