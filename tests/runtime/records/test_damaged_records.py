"""Files that a run has left, damaged in every way: what cannot be used is passed over or told as it is."""

import json
import os
from pathlib import Path

import pytest
from attrs import asdict, evolve
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.mapping.records import MapPathPart, MapTime
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from tests.damage import damaged
from tests.placement_maps import make_kinds, make_map
from tests.support import make_result, refusal, spec_of
from tfdeploy.cli.common import Common
from tfdeploy.cli.faults import guarded
from tfdeploy.cli.group import load
from tfdeploy.runtime.cluster.identity import Identity
from tfdeploy.runtime.cluster.monitor import ClusterRecord, _read_record
from tfdeploy.runtime.launch.launched_run import result_in, result_of
from tfdeploy.runtime.membership.addresses import (
    Cluster,
    Membership,
    Task,
    read_tf_config,
    to_tf_config,
)
from tfdeploy.runtime.records.history import History, HistoryRecord
from tfdeploy.runtime.records.lock import is_json_object
from tfdeploy.runtime.records.result import Best, SplitResult
from tfdeploy.runtime.records.store import BrokenCheckpoint, Checkpoint, Manifest, Store
from tfdeploy.runtime.train.evaluation import read_best

LINE = HistoryRecord(
    10, "train", 0.5, 0.25, {"accuracy": 0.75}, 1234.5, 0.1, {"*": 0.1, "head/*": 0.2}, 0.5, "worker:0"
)
RESULT = make_result(
    metrics={"accuracy": 0.75},
    test=SplitResult(0.5, {"accuracy": 0.75}, 8),
    best=Best(10, "highest", "accuracy", 0.75),
)
IDENTITY = Identity("worker", 1, "abc", "0.1.0", "2.21.0", "f00", "host", 7, 1.5, "5ec7e7")
JOBS = (ir.Job("ps", tasks=1), ir.Job("worker", tasks=2))
CLUSTER = Cluster.of({"ps": ["p:1"], "worker": ["a:1", "b:1"]})
MAPS = [
    each.to_json()
    .replace('"memory_bytes": null', '"memory_bytes": 9')
    .replace('_limit": null', '_limit": 99')
    for each in (make_map(2), make_kinds(3, 2))
]
"""A map of each version, with limits of memory."""


def run(name: str, *arguments: object) -> int:
    """Run a command in this process, as a shell would; return its exit code."""
    words = [str(each) for each in arguments]
    return guarded(Common(), lambda: load(name).main(words, standalone_mode=False))


in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
slowly = settings(in_one_folder, max_examples=40)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with a checkpoint of step 3, as far as its files tell."""
    made = Store(tmp_path)
    files = {"model.ckpt-3.index": b"index", "model.ckpt-3.data-00000-of-00001": b"weights"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    sizes = {name: len(content) for name, content in files.items()}
    made.commit(Manifest(3, 96, "abc", 7, "2030-01-01T00:00:00.000Z", sizes))
    return made


@in_one_folder
@given(data=st.data())
def test_a_manifest(data: st.DataObject, store: Store) -> None:
    """A checkpoint whose manifest says anything else than what was written is broken, with a reason."""
    path = store.directory / "model.ckpt-3.json"
    whole = path.read_text()
    written = store.find(3)
    assert isinstance(written, Checkpoint)
    path.write_bytes(data.draw(damaged(whole)))
    try:
        found = store.find(3)
        sealed = isinstance(found, Checkpoint) and found.manifest.sha256 is not None
        assert (found == written) if sealed else isinstance(found, BrokenCheckpoint | Checkpoint)
        assert store.steps() == [3]
    finally:
        path.write_text(whole)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"step": 4}, "its manifest is of step 4"),
        ({"examples": 95}, "its manifest was changed after it was written"),
        ({"seed": 8}, "its manifest was changed after it was written"),
        ({"files": {}, "sha256": None}, "its manifest does not list the files of a checkpoint"),
        (
            {"files": {"model.ckpt-3.index": 5, "../data-00000-of-00001": 7}, "sha256": None},
            "its manifest does not list the files of a checkpoint",
        ),
        (
            {"index_sha256": "0" * 64, "sha256": None},
            "`model.ckpt-3.index` is not the one that was written with its manifest",
        ),
    ],
)
def test_a_manifest_of_something_else(store: Store, changed: dict[str, object], reason: str) -> None:
    """The manifest, its name and the files belong together, whether or not it has a digest."""
    path = store.directory / "model.ckpt-3.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert store.find(3) == BrokenCheckpoint(store.prefix(3), 3, reason)


def test_a_manifest_of_an_earlier_version(store: Store) -> None:
    """One without digests counts as before."""
    path = store.directory / "model.ckpt-3.json"
    fields = json.loads(path.read_text())
    path.write_text(
        json.dumps({name: fields[name] for name in fields if "sha256" not in name} | {"spec_sha256": ""})
    )
    assert isinstance(store.find(3), Checkpoint)


@in_one_folder
@given(data=st.data())
def test_the_best(data: st.DataObject, tmp_path: Path) -> None:
    """A best is read or, with a warning, is none."""
    path = tmp_path / "best.json"
    path.write_bytes(data.draw(damaged(json.dumps(asdict(RESULT.best)))))
    warnings: list[Diagnostic] = []
    found = read_best(path, warnings.append)
    assert [each.code for each in warnings] == ([] if found is not None else ["TFD746"])


@slowly
@given(data=st.data())
def test_a_history(data: st.DataObject, tmp_path: Path) -> None:
    """Lines that cannot be used are taken out, and what is left can be drawn, in text and as a picture."""
    path, out = tmp_path / "history.jsonl", tmp_path / "curves.svg"
    lines = [data.draw(damaged(LINE.to_json())) for _ in range(3)]
    path.write_bytes(b"\n".join([LINE.to_json().encode(), *lines, b""]))
    for more in ([], ["--out", str(out)], ["--score", "accuracy"]):
        done = CliRunner().invoke(load("plot"), [str(path), *more], standalone_mode=False)
        assert done.return_value == 0, done.exception
    history = History(path)
    history.repair(10)
    again = History(path)
    assert again.repair(10) == 0
    assert len(again.records) == len(history.records) >= 1


@given(data=st.data())
def test_a_result(data: st.DataObject) -> None:
    """A line that is taken for a result is one."""
    line = data.draw(damaged(RESULT.to_json())).decode(errors="replace")
    if result_in(line) is not None:
        assert result_of(line).status in {"finished", "interrupted", "terminated"}
    assert result_of(RESULT.to_json()) == RESULT


@given(data=st.data())
def test_an_identity(data: st.DataObject) -> None:
    """What a stranger says of itself at an address is an identity or none."""
    found = Identity.read(data.draw(damaged(IDENTITY.to_json())).decode(errors="replace"))
    assert found is None or found.task.index >= 0
    assert Identity.read(IDENTITY.to_json()) == IDENTITY


@in_one_folder
@given(data=st.data())
def test_where_the_tasks_are(data: st.DataObject, tmp_path: Path) -> None:
    """`cluster.json` names tasks with addresses, or nothing is known."""
    spec = spec_of(
        'tfdeploy = 1\nmodel "m" { x = input(float32, [1])\n output = x -> Dense(1) }\n',
        train__directory=str(tmp_path),
    )
    written = json.dumps(asdict(ClusterRecord(os.getpid(), "abc", CLUSTER.jobs)))
    (tmp_path / "cluster.json").write_text(written)
    assert _read_record(spec) == Membership(CLUSTER, None, "abc")
    (tmp_path / "cluster.json").write_bytes(data.draw(damaged(written)))
    found = _read_record(spec)
    assert found is None or all(":" in found.cluster.address(task) for task in found.cluster.tasks)


@given(data=st.data())
def test_tf_config(data: st.DataObject) -> None:
    """A TF_CONFIG is understood, says nothing, or is told as what it is."""
    text = data.draw(damaged(to_tf_config(CLUSTER, Task("worker", 1)))).decode(errors="replace")
    found: tuple[Cluster, Task | None] | str | None
    try:
        found = read_tf_config(text, JOBS)
    except RunError as fault:
        found = fault.diagnostic.code
    assert isinstance(found, tuple) or found in {None, "TFD760", "TFD761"}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"cluster":' + "[" * 100_000])
def test_what_is_nested_without_end(
    text: str, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No reader of JSON follows brackets until Python's stack ends, and a map says what it is."""
    path = tmp_path / "placement.json"
    for name in ("placement.json", "best.json", "history.jsonl", "cluster.json", "model.ckpt-3.json"):
        (tmp_path / name).write_text(text)
    for command in (("plan", path), ("plan", path, "--json"), ("diff", path, path)):
        assert run(*command) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"error[TFD758]: `{path}` is not a placement map: it is nested too deeply\n")
    found = refusal(read_tf_config, text, JOBS)
    assert (found.code, found.message) == (
        "TFD760",
        "TF_CONFIG is nested too deeply",
    )
    assert store.find(3) == BrokenCheckpoint(store.prefix(3), 3, "its manifest is nested too deeply")
    warnings: list[Diagnostic] = []
    assert read_best(tmp_path / "best.json", warnings.append) is None
    assert [each.code for each in warnings] == ["TFD746"]
    assert HistoryRecord.read(text.encode()) is None
    assert result_in(text) is None
    assert Identity.read(text) is None
    assert not is_json_object(path, set())


@pytest.mark.parametrize("whole", MAPS, ids=["1.0", "2.0"])
@slowly
@given(data=st.data())
def test_a_placement_map(
    data: st.DataObject, whole: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every view shows a map or says that it is none."""
    good, path = tmp_path / "good.json", tmp_path / "placement.json"
    good.write_text(whole)
    path.write_bytes(data.draw(damaged(whole)))
    for command in (
        ("plan", path),
        ("plan", path, "--ops", "--every-clone"),
        ("plan", path, "--html", "-"),
        ("diff", good, path),
        ("diff", path, good, "--json"),
    ):
        code = run(*command)
        said = capsys.readouterr().err
        assert code in {0, 1, 2}, said
        assert "TFD901" not in said


@pytest.mark.parametrize("name", ["before.json", "after.json"])
def test_a_step_that_takes_no_time(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no parts in per cent, and another one is longer, without saying by how much."""
    for file, seconds in (("before.json", 0.0), ("after.json", 1.0)):
        part = MapPathPart("fc1", seconds)
        time = MapTime(seconds, False, 1.0, "p.json", (), (), (part,), (part,))
        (tmp_path / file).write_text(evolve(make_map(2), time=time).to_json())
    for arguments in (("plan", name), ("diff", name, "before.json"), ("diff", "before.json", name)):
        command, *files = arguments
        assert run(command, *(tmp_path / each for each in files)) in {0, 1}, capsys.readouterr().err
