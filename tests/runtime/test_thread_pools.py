"""The threads of a process are those that the spec asks for, whatever session was first."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests import forked
from tests.folders import ROOT

SPEC = """
tfdeploy = 1
model "words" {
  word = input(string, [])
  label = input(int32, [])
  logits = word -> StringLookup(vocabulary = ["a", "b"]) -> Embedding(3, 8) -> Dense(3)
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices { cpu = 2, intra_op_threads = 300, inter_op_threads = 50 }
clones { count = 2, batch = 2 }
update { optimizer = SGD(0.1) }
data { train = csv("words.csv", word = "word", label = "label") }
train { steps = 100000000, directory = "run", checkpoint_every = 100000000, summaries = none }
"""


def threads_of(process: int | str) -> int:
    """Return how many threads a process has."""
    return len(list(Path(f"/proc/{process}/task").iterdir()))


TWO_SESSIONS = """
from tfdeploy.runtime.start_tensorflow import start_tensorflow
tf = start_tensorflow()
from compiler.graph.session_options import helper_config, session_config
from compiler.pipeline import make_plan
from tests.runtime.test_thread_pools import threads_of
from tests.support import classifier

def opened(config):
    before = threads_of("self")
    with tf.compat.v1.Session(graph=tf.Graph(), config=config):
        print(threads_of("self") - before)

tf.compat.v1.Session(graph=tf.Graph(), config=helper_config(intra_op_parallelism_threads=7)).close()
for intra, inter in (("3", "5"), ("4", "1")):
    plan = make_plan(classifier(clones=2, devices__intra_op_threads=intra, devices__inter_op_threads=inter))
    opened(session_config(plan))
"""


def test_each_session_has_the_threads_of_its_spec() -> None:
    """Of two specs that one process trains, after a session that helped; each of two devices has a pool."""
    done = forked.run([sys.executable, "-c", TWO_SESSIONS], cwd=ROOT, text=True)
    assert not done.returncode, done.stderr
    assert [int(each) for each in done.stdout.split()] == [5 + 2 * 3, 1 + 2 * 4]


@pytest.mark.full
def test_a_run_has_the_threads_of_its_spec(tmp_path: Path) -> None:
    """Its words are read and looked up in sessions that are opened before that which trains."""
    (tmp_path / "words.tfdeploy").write_text(SPEC)
    (tmp_path / "words.csv").write_text("word,label\n" + "a,1\nb,2\n" * 8)
    command = [sys.executable, "-m", "tfdeploy", "compile-and-run", "words.tfdeploy"]
    with forked.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}) as run:
        latest = time.monotonic() + 120
        try:
            while threads_of(run.pid) < 2 * 300 + 50:
                assert run.poll() is None
                assert time.monotonic() < latest
                time.sleep(0.05)
        finally:
            run.send_signal(signal.SIGKILL)
