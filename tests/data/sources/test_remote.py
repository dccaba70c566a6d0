"""Which sources a server in another process can read: those that say that they need no Python."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests import forked
from tests.data.shared_files import KINDS, NUMBER, ORDERS, two_passes
from tests.folders import ROOT
from tests.runtime.tasks import free_ports

SPEC = """\
tfdeploy = 1

model "m" {{
  x = input(float32, [4])
  y = x -> Dense(2)
  output = y
}}

devices {{
  job "worker" {{ hosts = ["127.0.0.1:{}", "127.0.0.1:{}"] }}
}}

update {{ replication = in_graph }}
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start two workers in processes and folders of their own; give the first one's address."""
    folder = tmp_path_factory.mktemp("servers")
    ports = free_ports(2)
    (folder / "spec.tfdeploy").write_text(SPEC.format(*ports))
    command = [sys.executable, "-m", "tfdeploy", "serve", "spec.tfdeploy", "--task"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        forked.Popen([*command, f"worker:{index}"], cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
        for index in range(2)
    ]
    try:
        for each in processes:
            assert "listens at" in each.stdout.readline()
        yield f"grpc://127.0.0.1:{ports[0]}"
    finally:
        for each in processes:
            each.kill()
            each.communicate()


def read_remotely(target: str, streams: list[Any]) -> list[dict[str, np.ndarray]]:
    """Return a pass of each stream, which the second worker reads for a session at the first."""
    following, starters = [], []
    with tf.Graph().as_default(), tf.device("/job:worker/task:1/device:CPU:0"):
        for stream in streams:
            dataset = stream.batches(stream.size, repeat=True, drop_remainder=True)
            types, shapes = (
                tf.compat.v1.data.get_output_types(dataset),
                tf.compat.v1.data.get_output_shapes(dataset),
            )
            iterator = tf.compat.v1.data.Iterator.from_structure(types, shapes)
            following.append(iterator.get_next())
            starters.append(iterator.make_initializer(dataset))
        with tf.compat.v1.Session(target) as session:
            session.run(starters)
            found: list[dict[str, np.ndarray]] = session.run(following)
    return found


@pytest.mark.full
def test_servers_read_every_source_of_files(
    target: str, reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under all transforms, a server in another folder reads what is read here, relative paths as well."""
    monkeypatch.chdir(reader.base)
    reader.base = Path()
    streams = []
    for kind in KINDS:
        kind.write(Path())
        streams += [
            kind.opened(reader, *(reader.call(*each) for each in order), seed=3, shard=(1, 2))
            for order in ORDERS
        ]
    assert all(stream.needs_python is None for stream in streams)
    here = [passes[0] for passes in two_passes(streams)]
    for stream, found, wanted in zip(streams, read_remotely(target, streams), here, strict=True):
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values, err_msg=stream.source.call.name)


@pytest.mark.full
def test_what_needs_python_fails_there_and_says_why(target: str, reader: Any) -> None:
    """Sources that read through Python say so, and a server indeed cannot read them."""
    text = "n,t\n" + "".join(f'{each},"a\nb"\n' for each in range(4))
    (reader.base / "quoted.csv").write_text(text)
    np.savez_compressed(reader.base / "packed.npz", n=np.arange(4, dtype=np.int32))
    np.savez(reader.base / "columns.npz", n=np.asfortranarray(np.zeros([4, 2], np.int32)))
    np.savez(reader.base / "swapped.npz", n=np.arange(4, dtype=">i4"))
    module = "import numpy as np\n\n\ndef some():\n    return [{'n': np.int32(each)} for each in range(4)]\n"
    (reader.base / "remote_examples.py").write_text(module)
    calls = {
        "run over several lines": reader.call("csv", "quoted.csv", n="n"),
        "`n` of": reader.call("npz", "packed.npz"),
        "order that only Python reads": reader.call("npz", "swapped.npz"),
        "the Python function `remote_examples:some`": reader.call("python", "remote_examples:some"),
    }
    streams = {reason: reader.open(call, wanted=NUMBER) for reason, call in calls.items()}
    columns = reader.open(reader.call("npz", "columns.npz"), wanted={"n": ("int32", (2,))})
    streams["packed or in an order"] = columns
    for reason, stream in streams.items():
        assert reason in stream.needs_python.reason
        assert stream.needs_python.advice
        assert len(two_passes([stream])[0]) == 2
        with pytest.raises(tf.errors.OpError, match="pyfunc_"):
            read_remotely(target, [stream])
