"""`export --kubernetes`: every task of the spec's cluster as a pod that knows who it is, or a refusal."""

import copy
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

import grammar
import tfdeploy
from tests.cli.conftest import Command
from tests.folders import ROOT
from tests.kubernetes.conftest import BLOCKS, CSV
from tests.kubernetes.published import hold
from tests.specs import CLASSES
from tfdeploy.cli.group import load
from tfdeploy.kubernetes import Deployment, to_yaml
from tfdeploy.kubernetes import manifests as manifests_of
from tfdeploy.kubernetes.deployment import Kind, requests_of
from tfdeploy.runtime.membership.addresses import Task, read_tf_config

MIB, GIB = 1 << 20, 1 << 30
CPUS = '  job "ps" { tasks = 2 }\n  job "worker" { tasks = 3 }'
LARGE_OPTIMIZER = "SGD(0.1, momentum = 0.9)"
Golden = Callable[[str, str], None]
Container = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("kind", ["Job", "TFJob"])
def test_manifests_are_of_the_published_schemas(kind: str, mode: str, export: Any, golden: Golden) -> None:
    """All manifests, with every option, hold to the strict schemas of an older and the newest Kubernetes."""
    options = f"--kind {kind} --data digits --namespace team-a --name run1 --port 4000 --allow-python".split()
    done = export.run(*options, mode=mode)
    golden(f"kubernetes/{kind}_{mode}.yaml", done.stdout)
    for each in yaml.safe_load_all(done.stdout):
        hold(each)
        assert each["metadata"]["namespace"] == "team-a"


def test_pods_have_no_more_rights_than_they_need(export: Any) -> None:
    """They write into two volumes, and one rule lets in pods of the run at the servers' port alone."""
    text = export.run("--port", "4000", mode="sync").stdout
    assert text.count("automountServiceAccountToken: false") == text.count("runAsNonRoot: true") == 3
    assert text.count("readOnlyRootFilesystem: true") == text.count("allowPrivilegeEscalation: false") == 3
    assert not re.search("hostNetwork|hostPID|hostIPC", text)
    assert set(re.findall(r"- name: \S+\n\s+mountPath: (\S+)\n(?!\s+readOnly)", text)) == {"/runs", "/tmp"}  # noqa: S108 a volume of the pod's own


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Job", "spec.completions", "two"),
        ("Job", "spec.template.spec.containers.0.ports.0.containerPort", "http"),
        ("Job", "spec.template.spec.servicAccount", "x"),
        ("NetworkPolicy", "spec.ingress.0.form", []),
        ("Service", "spec.ports.0.port", None),
        ("TFJob", "spec.tfReplicaSpecs.PS.replicas", "2"),
        ("TFJob", "spec.tfReplicaSpecs.Server", {"replicas": 1}),
        ("TFJob", "spec.tfReplicaSpecs.PS.template.spec.containers.0.imag", "x"),
        ("TFJob", "spec.runPolicies", {}),
    ],
)
def test_the_published_schemas_refuse_what_is_wrong(kind: str, path: str, value: Any, export: Any) -> None:
    """A value of another type, or a field that there is not, is noticed in every kind of manifest."""
    found = export.manifests("--kind", "TFJob" if kind == "TFJob" else "Job")
    manifest = copy.deepcopy(next(each for (name, _), each in found.items() if name == kind))
    hold(manifest)
    *parts, last = path.split(".")
    at: Any = manifest
    for part in parts:
        at = at[int(part)] if isinstance(at, list) else at[part]
    at[last] = value
    with pytest.raises((ValueError, kubernetes_validate.ValidationError)):
        hold(manifest)


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_every_pod_of_a_job_knows_its_task(mode: str, export: Any, container_of: Container) -> None:
    """With its number put in, a pod's TF_CONFIG and arguments name its task, and where all others are."""
    manifests = export.manifests(mode=mode)
    spec = grammar.read("d", text=manifests["ConfigMap", "my-digits-spec"]["data"]["my-digits.tfdeploy"]).spec
    assert spec is not None
    service = manifests["Service", "my-digits"]
    assert service["spec"]["clusterIP"] == "None"
    for job, tasks in {"ps": 2, "worker": 3}.items():
        manifest = manifests["Job", f"my-digits-{job}"]
        assert (manifest["spec"]["completionMode"], manifest["spec"]["completions"]) == ("Indexed", tasks)
        assert manifest["spec"]["parallelism"] == tasks
        assert manifest["spec"]["template"]["spec"]["subdomain"] == "my-digits"
        container = container_of(manifest)
        names = [each["name"] for each in container["env"]]
        assert names.index("TASK_INDEX") < names.index("TF_CONFIG")  # what is put in must stand before
        value = next(each["value"] for each in container["env"] if each["name"] == "TF_CONFIG")
        command = "compile-and-run" if (job, mode) == ("worker", "async") else "serve"
        for index in range(tasks):
            cluster, task = read_tf_config(value.replace("$(TASK_INDEX)", str(index)), spec.devices.jobs)
            assert task == Task(job, index)
            assert cluster.address(Task(job, index)) == f"my-digits-{job}-{index}.my-digits:2222"
            filled = [each.replace("$(TASK_INDEX)", str(index)) for each in container["args"]]
            options = ["--task", f"{job}:{index}", "--listen-everywhere"]
            assert filled == [command, "/spec/my-digits.tfdeploy", *options]


def test_what_the_operator_sets_names_the_tasks_of_the_spec(export: Any) -> None:
    """TF_CONFIG as the training operator makes it of the replicas gives every task of the spec to one pod."""
    manifests = export.manifests("--kind", "TFJob")
    replicas = manifests["TFJob", "my-digits"]["spec"]["tfReplicaSpecs"]
    spec = grammar.read("d", text=manifests["ConfigMap", "my-digits-spec"]["data"]["my-digits.tfdeploy"]).spec
    assert spec is not None
    counts = {kind.lower(): each["replicas"] for kind, each in replicas.items()}
    cluster = {
        kind: [f"my-digits-{kind}-{index}.default.svc:2222" for index in range(count)]
        for kind, count in counts.items()
    }
    found = []
    for kind, count in counts.items():
        for index in range(count):
            task = {"type": kind, "index": index}
            text = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})
            given = read_tf_config(text, spec.devices.jobs)
            assert given is not None
            addresses, own = given
            assert addresses.address(own) == cluster[kind][index]
            found.append(own.ref)
    assert sorted(found) == ["ps:0", "ps:1", "worker:0", "worker:1", "worker:2"]


@pytest.mark.family(every=3)
@pytest.mark.parametrize("kind", ["Job", "TrainJob", "TFJob"])
def test_pods_ask_for_the_memory_of_the_forecast(kind: Kind) -> None:
    """A large layer and its slots are on a server, and a client has neither; TensorFlow has 1 GiB."""
    text = CLASSES + BLOCKS.format(data=CSV, jobs=CPUS, mode="sync", train="")
    text = text.replace("[4]", "[4096]").replace("Dense(2", "Dense(4096").replace("SGD(0.1)", LARGE_OPTIMIZER)
    spec = grammar.read("large.tfdeploy", text=text).spec
    placement = tfdeploy.map_placement(spec)
    needed = requests_of(spec, placement)
    of_server = next(each.memory_bytes for each in placement.devices if each.ref == "ps[0].cpu[0]")
    assert of_server > 4 * 64 * MIB
    assert needed["ps"] == GIB + round(1.25 * of_server)
    assert needed["client"] == GIB < needed["worker"] < needed["ps"]
    deployed = Deployment(spec, image="i", name="n", runs="r", kind=kind, memory=needed)
    asked = re.findall(r"memory: (\d+)Mi", to_yaml(manifests_of(deployed).values()))
    expected = [needed["ps"], needed["worker"], needed["client"]]
    assert [int(each) for each in asked] == [-(-each // MIB) for each in expected]


def test_a_size_is_one_of_the_language(export: Any) -> None:
    """What is none is refused before anything is written."""
    for wrong in ("3", "3s", "GiB", "-1GiB", "3 GiB", "", "0.0B"):
        assert f"{wrong!r} is not a size" in str(export.run("--memory", wrong).exception)


def test_the_spec_is_the_one_that_was_given(export: Any, container_of: Container) -> None:
    """The ConfigMap has the spec with overrides, with data and runs where the volumes are, without hosts."""
    hosts = '  job "ps" { hosts = ["a:1", "b:1"] }\n  job "worker" { hosts = ["c:1", "d:1", "e:1"] }'
    paths = ["../up/a.csv", "b/c.csv", "/abs/d.csv"]
    splits = [f'csv("{path}", x = "[abcd]", label = "label")' for path in paths]
    data = f"{splits[0]}\n  validation = {splits[1]}\n  test = {splits[2]}"
    train = ', directory = "runs/x", weights = "start.keras"'
    found = export.manifests("--set", "train.steps=9", "--data", "digits", jobs=hosts, data=data, train=train)
    manifest = found["ConfigMap", "my-digits-spec"]
    spec = grammar.read("d", text=manifest["data"]["my-digits.tfdeploy"]).spec
    assert [(job.name, job.tasks, job.hosts) for job in spec.devices.jobs] == [
        ("ps", 2, ()),
        ("worker", 3, ()),
    ]
    read = [split.source.args for split in (spec.data.train, spec.data.validation, spec.data.test) if split]
    assert read == [("/data/up/a.csv",), ("/data/b/c.csv",), ("/abs/d.csv",)]
    train_block = spec.train
    assert (train_block.steps, train_block.directory, train_block.weights) == (
        9,
        "/runs/runs/x",
        "/data/start.keras",
    )
    mounts = {each["name"]: each for each in container_of(found["Job", "my-digits-worker"])["volumeMounts"]}
    assert (mounts["data"]["mountPath"], mounts["data"]["readOnly"]) == ("/data", True)


def test_a_folder_gets_a_file_for_each_manifest(export: Any, tmp_path: Path) -> None:
    """`--out DIR` makes a folder of what standard output would have had, and touches none that is there."""
    folder = tmp_path / "manifests"
    done = export.run("--out", str(folder), mode="sync")
    assert (done.return_value, done.stdout) == (0, f"{folder}\n")
    assert sorted(path.name for path in folder.iterdir()) == [
        "job-client.yaml",
        "job-ps.yaml",
        "job-worker.yaml",
        "network-policy.yaml",
        "service.yaml",
        "spec.yaml",
    ]
    written = [yaml.safe_load(path.read_text()) for path in folder.iterdir()]
    there = {(each["kind"], each["metadata"]["name"]): each for each in written}
    assert there == export.manifests(mode="sync")
    again = export.run("--out", str(folder))
    assert "is there already" in str(again.exception)


def test_no_tensorflow_is_loaded(export: Any) -> None:
    """Writing manifests waits neither for TensorFlow nor for NumPy if the memory is given."""
    path = export.write()
    program = (
        "import sys; from tfdeploy.cli.group import load; "
        f"arguments = [{str(path)!r}, '--kubernetes', '--image', 'i', '--runs', 'r', '--memory', '2GiB']; "
        "load('export').main(arguments, standalone_mode=False); "
        "print('loaded:', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "yaml" in loaded
    assert loaded & {"tensorflow", "keras", "numpy", "rich"} == set()


GIVEN = "--kubernetes --image i --runs r"


def test_specs_without_a_place_on_kubernetes(
    export: Any, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """What cannot be had is one error at the block or job, exit code 1, and nothing on standard output."""
    one = '  job "worker" { tasks = 1 }'
    cases = {
        "": "  cpu = 2",
        "--kind TFJob": '  job "ps" { tasks = 1 }\n  job "reader" { tasks = 1 }',
        "--port 4000": f'{one}\n  job "Worker" {{ tasks = 1 }}',
        "--set update.mode=sync": '  job "client" { tasks = 1 }',
        f"--name {'n' * 50}": '  job "ps" { tasks = 1 }\n  job "worker_of_" { tasks = 1000 }',
        "--set train.directory=../../etc": one,
    }
    said = []
    for options, jobs in cases.items():
        path = export.write(jobs=jobs)
        said.append(Command(tmp_path).session(f"export {path.name} {GIVEN} {options}".rstrip()))
    golden("kubernetes/refused_specs.txt", "\n".join(said))


def test_options_that_do_not_go_together(
    export: Any, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """Wrong usage is said in words, with exit code 2."""
    given = (
        "",
        "--saved-model new --kubernetes",
        "--saved-model new --image i",
        f"{GIVEN} --emulate",
        "--kubernetes --runs r",
        "--kubernetes --image i",
        f"{GIVEN} --name Run",
        f"{GIVEN} --port 80",
    )
    name = export.write().name
    lines = [f"export {name} {each}".rstrip() for each in given]
    golden("kubernetes/refused_options.txt", Command(tmp_path).session(*lines))


DEPLOY = ROOT / "deploy"
TEXT = (DEPLOY / "README.md").read_text().replace("\\\n", " ")
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^\$ tfdeploy( export .*)$", TEXT, re.MULTILINE)]


@pytest.mark.family(every=3)
@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[-1])
def test_manifests_of_the_folder_are_what_the_command_writes(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The commands of the text write each file of the folder as it is; `--update-golden` renews them."""
    (tmp_path / "deploy").mkdir()
    shutil.copy(DEPLOY / "digits.tfdeploy", tmp_path / "deploy")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(load("export"), arguments, standalone_mode=False)
    folder = arguments[-1]
    assert (done.exception, done.stderr, done.stdout) == (None, "", f"{folder}\n")
    if request.config.getoption("--update-golden"):
        shutil.rmtree(DEPLOY / folder, ignore_errors=True)
        shutil.copytree(tmp_path / folder, DEPLOY / folder)
    written: dict[str, str] = {path.name: path.read_text() for path in (tmp_path / folder).iterdir()}
    there = {path.name: path.read_text() for path in (DEPLOY / folder).iterdir()}
    assert there == written, "after a change that is meant: pytest tests/kubernetes --update-golden"
    for text in written.values():
        manifest: dict[str, Any] = yaml.safe_load(text)
        hold(manifest)


def test_the_text_has_both_commands() -> None:
    """One for each kind; were none found, nothing would be compared."""
    assert [arguments[-1] for arguments in COMMANDS] == ["jobs", "trainjob", "tfjob"]
