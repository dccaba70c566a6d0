"""Makes the plan and the graph of a spec on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attrs import define, field, frozen

from compiler.kinds.layout import NO_EXTRAS, Extras
from compiler.pipeline import make_plan
from compiler.report.devices import device_label
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors
from dsl.ir.place import PARAMETER_SERVER
from tfdeploy.runtime.show.reporting import Reporter
from tfdeploy.runtime.start_tensorflow import start_tensorflow

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.many_clones import ManyClones
    from compiler.graph.tower.traces import Traces
    from compiler.plan import Plan
    from compiler.time.profile import FoundProfile
    from tfdeploy.runtime.membership.addresses import Membership


def require_trainable(spec: ir.Spec) -> None:
    """Raise SpecError if the spec lacks training data, an optimizer, or both steps and epochs."""
    found = []
    if spec.data is None or spec.data.train is None:
        found.append(no_training_data(spec))
    if not spec.update.optimizers:
        found.append(errors.no_optimizer(spec.update.span))
    if spec.train.steps is None and spec.train.epochs is None:
        found.append(errors.nothing_to_train_on(spec.train.span, missing="`steps` or `epochs` in `train`"))
    if found:
        raise SpecError(found)


def no_training_data(spec: ir.Spec, missing: str = "`data.train`") -> Diagnostic:
    """Return the error about a spec without training data, which shows what to write for its inputs."""
    inputs = {
        each.name: len(each.value.shape or ())
        for each in spec.model.bindings
        if isinstance(each.value, ir.Input)
    }
    span = spec.data.span if spec.data is not None else spec.span
    return errors.no_training_data(span, inputs, missing, block=spec.data is not None)


def folder_of(spec: ir.Spec) -> Path:
    """Return the folder from which the paths of a spec start."""
    return Path(spec.path).parent


def plan_of(
    spec: ir.Spec,
    *,
    emulate: bool = False,
    verbose: bool = False,
    membership: Membership | None = None,
    members: tuple[int, ...] | None = None,
) -> Plan:
    """Return the plan of a spec on this machine.

    TensorFlow is started if the spec does not say which devices there are.

    Args:
        emulate: Whether every declared device is a logical CPU of this process.
        membership: The part of this process in a cluster. If every worker has a graph of its own, the plan is
            that of this task, or that of the chief if this is None.
        members: The numbers of the tasks that take part, if tasks come and go; None for all.

    Raises:
        SpecError: If the spec does not fit its devices.
    """
    devices = spec.devices
    open_ended = not devices.jobs and devices.gpu is None and devices.cpu is None
    gpus = count_gpus(verbose=verbose) if open_ended else 0
    number = _number(membership, members)
    return make_plan(spec, emulate=emulate, visible_gpus=gpus, worker=number, members=members)


def _number(membership: Membership | None, members: tuple[int, ...] | None) -> int:
    """Return the number of a task among the workers, in the order of declaration."""
    if membership is not None and members is not None:
        return members.index(membership.own.index)
    if membership is None or membership.task is None:
        return 0
    workers = [each for each in membership.cluster.tasks if each.job != PARAMETER_SERVER]
    return workers.index(membership.task) if membership.task in workers else 0


def count_gpus(*, verbose: bool = False) -> int:
    """Return how many GPUs TensorFlow finds on this machine."""
    tf = start_tensorflow(verbose=verbose)
    return len(tf.config.list_physical_devices("GPU"))


def require_devices(plan: Plan) -> None:
    """Check that this machine has every GPU of the plan.

    Nothing is checked for emulated devices, or with soft placement, by which TensorFlow chooses others.

    Args:
        plan: The plan. GPUs of tasks are left to the servers of these.

    Raises:
        SpecError: If a GPU is missing.
    """
    options = plan.spec.devices
    if plan.emulate or options.soft_placement:
        return
    wanted = [each for each in plan.topology.select("gpu") if each.job is None]
    if not wanted:
        return
    there = count_gpus()
    if options.visible is not None:
        there = sum(index < there for index in options.visible)
    found = [each.ref for each in plan.topology.select("cpu")] + [f"gpu[{index}]" for index in range(there)]
    span = options.span_of("gpu")
    missing = [each.ref for each in wanted if each.index >= there]
    if missing:
        raise SpecError([errors.device_not_present(span, ref=device_label(missing), found=found)])


@define
class SharedTowers:
    """Traced towers that the graphs of several specs share, if their models are equal and in one folder."""

    _known: dict[Path, Traces] = field(factory=dict, repr=False)

    def of(self, plan: Plan) -> Traces:
        """Return the towers for a plan; TensorFlow has been started."""
        from compiler.graph.tower.traces import Traces

        folder = folder_of(plan.spec)
        return self._known.setdefault(folder, Traces(str(folder)))


SHARED_SEED = 0
"""The seed of graphs that share towers, which are of one seed. They are not run."""


def graph_of(plan: Plan, *, seed: int | None = None, traces: Traces | None = None) -> CompiledGraph:
    """Start TensorFlow and return the graph of a plan, which is run."""
    _start_for(plan)
    from compiler.graph.build import compile_graph

    return compile_graph(plan, base=str(folder_of(plan.spec)), seed=seed, traces=traces)


def step_of_plan(plan: Plan, towers: SharedTowers | None = None) -> CompiledGraph:
    """Start TensorFlow and return a plan compiled to its step, of which no graph is made."""
    _start_for(plan)
    from compiler.graph.build import compile_step

    base = str(folder_of(plan.spec))
    if towers is None:
        return compile_step(plan, base=base)
    return compile_step(plan, base=base, seed=SHARED_SEED, traces=towers.of(plan))


def many_of(
    plan: Plan,
    *,
    machine: FoundProfile | None = None,
    extras: Extras = NO_EXTRAS,
    towers: SharedTowers | None = None,
) -> ManyClones:
    """Start TensorFlow and return the map of a plan with many clones that are alike, without its graph.

    Raises:
        NotAlikeError: The map has to be made from the graph of the plan; the message says why.
    """
    _start_for(plan)
    from compiler.graph.many_clones import map_many

    traces = None if towers is None else towers.of(plan)
    return map_many(plan, base=str(folder_of(plan.spec)), machine=machine, extras=extras, traces=traces)


def _start_for(plan: Plan) -> None:
    tf = start_tensorflow()
    if plan.spec.train.deterministic:
        tf.config.experimental.enable_op_determinism()


# --- the options of a run ---------------------------------------------------------------------------------


Resume = Literal["auto", "never", "must"]


@frozen
class RunOptions:
    """The options of a run."""

    emulate: bool = False
    # Whether the run continues from a checkpoint: if there is one, never, or in any case.
    resume: Resume = "auto"
    verbose: bool = False
    # Whether the process exists for this run alone, so that a second signal may end it.
    own_process: bool = False
    profile: int = 0  # how many steps are profiled for each of the two kinds of profile; 0 for none
    reporter: Reporter = field(factory=Reporter)
    # The part of this process in a cluster; None if the run needs this process alone.
    membership: Membership | None = None
