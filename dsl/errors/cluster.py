"""TFD760 to TFD789: the tasks of a cluster, and their deployment."""

from __future__ import annotations

from dsl.errors.wording import Placeless, Wording, either

bad_tf_config = Placeless("TFD760: TF_CONFIG {reason}", notes=("{notes?:each}",), help="{advice?}")

# --- which tasks there are --------------------------------------------------------------------------------

no_such_task = Wording(
    "TFD761: the cluster has no task `{ref}`",
    notes=(either("the tasks are {refs?:alternatives}", "the spec declares no jobs"),),
)
no_addresses = Wording(
    "TFD761: nothing says where the tasks of `{job}` are",
    text="no `hosts` here, and TF_CONFIG is not set",
    help='give every job `hosts = ["address:port", ...]`, or run `compile-and-run` without `--task`, '
    "which starts all tasks on this machine",
)
not_for_this_command = Wording(
    "TFD761: `{ref}` is {serves:|a server|a worker that trains} under `replication = {replication}`",
    notes=("{if:in_graph}one client, `compile-and-run SPEC` without a task, trains on all of them",),
    help="start it with `{serves:|serve|compile-and-run} SPEC --task {ref}`",
)
not_running = Wording(
    "TFD761: {span:|nothing says where the tasks are|the spec declares no jobs}",
    text="{if:span}no `hosts` for all jobs, no TF_CONFIG, and no run under way",
    help="run this where the cluster was started, with the same run directory",
)
which_task = Wording(
    "TFD761: nothing says which worker this process is",
    notes=("the workers are {refs:alternatives}",),
    help="say it, as in `--task {refs:first}`, or start all tasks on this machine: `--launch`",
)

# --- addresses --------------------------------------------------------------------------------------------

bad_address = Wording("TFD769: {address:quoted} is no address of a task: {reason}", text="here")
bad_prometheus = Wording(
    "TFD769: {address:quoted} is no address for Prometheus: {reason}",
    text="here",
    help="write a port, as in `9100`, or `HOST:PORT` for others than this machine",
)
shared_address = Wording(
    "TFD769: `{first}` and `{second}` have one address, {address:quoted}",
    text="{other:|`{second}`|twice here}",
    places={"other?": "`{first}`"},
    help="give every task a port of its own",
)
cannot_listen = Placeless(
    "TFD762: the server of `{ref}` cannot listen at {address}: {reason}", help="{advice?}"
)
no_prometheus = Wording(
    "TFD762: Prometheus cannot read this run at {address}: {reason}",
    text="here",
    help="name another port, or end what has it",
)
no_own_address = Placeless(
    "TFD762: the server of `{ref}` cannot listen at {address:quoted}: {host:quoted} leads to "
    "{leads_elsewhere:|other machines' addresses|no address}",
    notes=("TensorFlow's servers have no authentication, so none listens at more addresses than it must",),
    help="correct the name, start the task on its own machine, or let it listen at every address of this "
    "one: `--listen-everywhere`",
)
tasks_missing = Wording(
    "TFD763: gave up after {waited} of waiting {why}: {missing:counted task} missing",
    text="{if:span}as long as this",
    notes=("{missing:each 8}",),
    help="start them, or find out why they do not answer; `train.task_timeout` limits the waiting",
)
unreachable = Wording(
    "TFD763: `{ref}` cannot be reached at {address}: {reason}",
    help="check that the name of the host is right, that it is up, and that this machine can reach it",
)
wrong_task = Wording(
    "TFD764: {found} answers at {address}, where `{ref}` should be",
    help="give every task an address of its own, the same ones in the `hosts` or TF_CONFIG of all tasks",
)

# --- processes that something else has started ---

no_number = Placeless(
    "TFD788: `{name}` in the environment does not say which of the processes this is",
    notes=("Slurm, MPI and torchrun set this variable; its value is not shown",),
    help="correct or unset it; without a cluster manager, use `--task` or `--join`",
)
no_such_number = Placeless(
    "TFD788: `{name}` in the environment is not less than `{size}`",
    notes=("processes are counted from 0; the values are not shown",),
    help="correct both, or unset them; without a cluster manager, use `--task` or `--join`",
)
other_number = Wording(
    "TFD788: {manager} has started {size:d} processes, and the spec has {tasks:counted task}",
    text="{tasks:counted task}",
    help="start {tasks:d}, or change the number of tasks: `--set devices.{job}.tasks={fitting:d}`",
)
no_meeting = Placeless(
    "TFD788: the tasks cannot meet in {place:quoted}: {reason}",
    help="name a folder of their own that all can write, or an address that all can reach: `--join`",
)
all_taken = Placeless(
    "TFD788: no task is left for this process: all have been taken in {place:quoted}",
    notes=("it could be {refs:alternatives}", "{holders:each 8}"),
    help="give each process a task of its own, end one of them, or give the spec more tasks",
)

# --- another number of tasks ------------------------------------------------------------------------------

fixed_tasks = Wording(
    "TFD749: `{job}` {there:|has a fixed number of tasks|is no job of the spec}",
    text="here",
    help="only a job that is written as in `tasks = 2..8` can have another number while it runs",
)
beyond_range = Wording(
    "TFD749: `{job}` cannot have {tasks:counted task}",
    text="it has {written} of them",
    help="ask for a number in this range",
)
not_launched = Placeless(
    "TFD749: no launcher runs the cluster of {directory:in_full}",
    help="start it by `compile-and-run SPEC --launch`; elsewhere, start or end processes of tasks",
)
launcher_silent = Placeless(
    "TFD749: the launcher has not answered for {seconds}", help="look at its output: it may be about to end"
)

# --- tasks that differ ------------------------------------------------------------------------------------

other_spec = Placeless(
    "TFD765: `{ref}` at {address} runs another spec than this process",
    notes=(
        either(
            "{difference?}",
            "the digest of spec, `--set` and included files is {ours:.12} here and {theirs:.12} there",
        ),
    ),
    help="start every task with the same spec and the same `--set` options",
)
other_version = Placeless(
    "TFD766: `{ref}` at {address} runs {what} {theirs}, this process {ours}",
    help="install the same versions for every task",
)
open_to_network = Placeless(
    "warning TFD767: the server of `{ref}` listens at {where}, and TensorFlow's servers have no "
    "authentication",
    notes=("whoever reaches the port can read and change the model, and run ops on this machine",),
    help="let only the machines of the cluster reach it: a network of its own, or a firewall",
)
no_secret = Placeless(
    "TFD770: the secret of the run cannot be taken from {path:quoted}: {reason}",
    help=either(
        "{advice?}", "name a file that only you can read: `TFDEPLOY_SECRET_FILE`; it is made if it is missing"
    ),
)
other_secret = Placeless(
    "TFD771: `{ref}` at {address} does not have the secret of this process",
    notes=("a task shuts down only if a process with the same secret asks it to",),
    help="give every task the same file: copy it to all machines, or name one on storage that they share"
    " by the environment variable `TFDEPLOY_SECRET_FILE`",
)
disbelieved = Placeless(
    "warning TFD772: somebody without the secret of the run has asked `{ref}` to shut down, which it "
    "does not do",
    help="find out who can reach its port: TensorFlow's servers have no authentication",
)
task_failed = Placeless("TFD768: `{ref}` {how}", notes=("{notes?:each}",), help="{advice?}")

# --- deployment -------------------------------------------------------------------------------------------

in_process_source_on_remote_worker = Wording(
    "TFD781: this `{source}` cannot be read by the server of `{task}`",
    text="needs Python",
    notes=(
        "{reason}",
        "with `replication = in_graph` the servers of the tasks read the data, without Python",
    ),
    help="{advice}",
)
nothing_to_deploy = Wording(
    "TFD785: the spec declares no jobs, so there are no tasks to write manifests for",
    help='declare the tasks in `devices`, as in `job "worker" {{ tasks = 2 }}`',
)
no_such_replica = Wording(
    "TFD786: a TFJob has no replicas for a job {job:quoted}",
    text="this job",
    notes=("its replicas are for the jobs {known:listed}",),
    help="name the job `{known:last}`, or write plain Jobs with `--kind Job`",
)
no_manifest_name = Wording("TFD787: {name:quoted} cannot be a name in Kubernetes: {reason}", help="{advice}")
