"""What manifests are to be made: the spec, and what the command line says of the place where it is to run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import evolve, field, frozen

from compiler.compatibility import replication_of
from compiler.figures import gathered
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import cluster as errors
from dsl.ir.place import PARAMETER_SERVER, WORKER
from tfdeploy.runtime.membership.addresses import Cluster
from tfdeploy.runtime.records.effective import with_paths

if TYPE_CHECKING:
    from compiler.kinds.kind_map import AnyMap

Kind: TypeAlias = Literal["Job", "TrainJob", "TFJob"]

SPEC_FOLDER, DATA_FOLDER, RUNS_FOLDER = "/spec", "/data", "/runs"
"""Where containers find the spec, the data files and the run directories."""
PORT = 2222
CLIENT = "client"
REPLICAS = (PARAMETER_SERVER, WORKER)
"""The jobs of a spec that a TFJob has replicas for."""

LONGEST_NAME = 63
"""Characters of a DNS label, which every pod's name is."""
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def label_of(text: str) -> str:
    """Return a text as a DNS label: small letters, digits, and hyphens between them; it may be empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@frozen
class Deployment:
    """A run on Kubernetes. Making one raises a SpecError if a task cannot run there."""

    spec: ir.Spec
    image: str
    name: str  # the name of the run, from which those of all resources are made
    runs: str  # the PersistentVolumeClaim for the run directories
    data: str | None = None  # the PersistentVolumeClaim for the data, or None if the data is in the image
    kind: Kind = "Job"
    namespace: str | None = None  # the namespace, or None for that of whoever applies the manifests
    port: int = PORT
    flags: tuple[str, ...] = field(default=())  # further arguments of `compile-and-run`
    # The bytes of memory that a task of each job asks for, and the client; nothing is asked for those that
    # are left out. See `requests_of`.
    memory: Mapping[str, int] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        """Raise a SpecError if a task cannot run on Kubernetes as the spec declares it."""
        found = list(_faults(self))
        if found:
            raise SpecError(found)

    @property
    def jobs(self) -> tuple[ir.Job, ...]:
        """The jobs of the cluster in the spec's order."""
        return self.spec.devices.jobs

    @property
    def has_client(self) -> bool:
        """Whether one client builds the graph of all tasks, which then only serve."""
        return replication_of(self.spec) == "in_graph"

    def serves(self, job: ir.Job) -> bool:
        """Whether the tasks of `job` are plain servers."""
        return self.has_client or job.name == PARAMETER_SERVER

    def object_name(self, job: str) -> str:
        """Return the name of the Job that runs the tasks of `job`."""
        # A TrainJob makes a JobSet, whose only Job of this name has the number 0.
        return f"{self.name}-{label_of(job)}{'-0' if self.kind == 'TrainJob' else ''}"

    @property
    def cluster(self) -> Cluster:
        """Where every task is, as names that pods of the namespace look up."""
        # The operator gives every replica a service of its own; pods of indexed Jobs share the headless one.
        behind = f"{'' if self.kind == 'TFJob' else f'.{self.name}'}:{self.port}"
        return Cluster.of(
            {
                job.name: [f"{self.object_name(job.name)}-{index}{behind}" for index in range(job.tasks)]
                for job in self.jobs
            }
        )

    @property
    def spec_file(self) -> str:
        """The name of the spec in its folder."""
        return f"{self.name}.tfdeploy"

    @property
    def deployed_spec(self) -> ir.Spec:
        """The spec as containers run it: data below the folder of data, the run directory below that of runs.

        Absolute paths stay as they are. The tasks have no hosts: where they are is said by TF_CONFIG.
        """
        train = self.spec.train
        directory = str(PurePosixPath(RUNS_FOLDER) / (train.directory or self.name))
        moved = with_paths(self.spec, lambda path: _under(DATA_FOLDER, path), directory)
        jobs = tuple(evolve(job, hosts=()) for job in self.jobs)
        return evolve(moved, devices=evolve(moved.devices, jobs=jobs))


def default_name(spec: ir.Spec) -> str:
    """Return the name of a run: that of the spec's file as a DNS label."""
    label = label_of(Path(spec.path).stem)
    return label if LABEL.fullmatch(label) else f"run-{label}".strip("-")


def _under(folder: str, path: str) -> str:
    """Return a relative path below `folder`; steps up from the spec's own folder are left out."""
    parts = [part for part in PurePosixPath(path).parts if part != ".."]
    return str(PurePosixPath(folder, *parts))


def _faults(deployment: Deployment) -> Iterator[Diagnostic]:
    if not deployment.jobs:
        yield errors.nothing_to_deploy(deployment.spec.devices.span or deployment.spec.span)
        return
    directory = deployment.spec.train.directory
    if directory is not None and ".." in PurePosixPath(directory).parts:
        reason = f"it leads out of `{RUNS_FOLDER}`, where the runs are"
        span = deployment.spec.train.span_of("directory")
        advice = "name a folder without `..`"
        yield errors.no_manifest_name(span, name=directory, reason=reason, advice=advice)
    taken: Mapping[str, str] = {CLIENT: "the client"} if deployment.has_client else {}
    for job in deployment.jobs:
        if deployment.kind == "TFJob" and job.name not in REPLICAS:
            yield errors.no_such_replica(job.span, job=job.name, known=REPLICAS)
        label = label_of(job.name)
        if label in taken:
            reason = f"{taken[label]} is called so, as `{label}`"
            advice = "give it another name"
            yield errors.no_manifest_name(job.span, name=job.name, reason=reason, advice=advice)
        taken = {**taken, label: f"the job `{job.name}`"}
        longest = f"{deployment.object_name(job.name)}-{job.tasks - 1}"
        if not LABEL.fullmatch(label) or len(longest) > LONGEST_NAME:
            reason = f"`{longest}` is no DNS label of at most {LONGEST_NAME} characters, from a letter on"
            advice = "use shorter names, of letters and digits"
            yield errors.no_manifest_name(job.span, name=job.name, reason=reason, advice=advice)


# --- the memory of pods -----------------------------------------------------------------------------------

OF_TENSORFLOW = 1 << 30
"""The bytes of a process with TensorFlow beside those of a step: its libraries, the graph, and buffers."""
MARGIN = 1.25
"""How many times the forecast of a step is asked for, because a step may also need more."""


def requests_of(spec: ir.Spec, placement: AnyMap) -> Mapping[str, int]:
    """Return the bytes that a task of each job, and the client, should ask for.

    That is what the CPU devices of the job's fullest task need by the forecast of a step, with a margin, and
    what TensorFlow has by itself. Examples that a task keeps, as with `cache()`, are not in it.

    Args:
        placement: The placement map of the spec, with the forecast of the memory of a step.
    """
    from compiler.report.devices import host_kind

    tasks = gathered((host_kind(each.ref), each.memory_bytes or 0) for each in placement.devices)
    found = {job.name: OF_TENSORFLOW for job in spec.devices.jobs} | {CLIENT: OF_TENSORFLOW}
    for ((job, _), kind), needed in tasks.items():
        if kind == "cpu" and job is not None:
            found[job] = max(found[job], OF_TENSORFLOW + round(MARGIN * sum(needed)))
    return found
