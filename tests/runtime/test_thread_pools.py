"""How TensorFlow starts in a process: its threads, what it writes, and what it is told of many clones."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

import grammar
from tests import forked
from tests.cli.conftest import GOOD
from tests.folders import ROOT
from tfdeploy.runtime import many_clones
from tfdeploy.runtime.start_tensorflow import _silenced

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


def _fail() -> None:
    with _silenced():
        os.write(2, b"libcudart.so is missing\n")
        raise ImportError


def test_messages_are_shown_if_loading_fails(capfd: pytest.CaptureFixture[str]) -> None:
    """They are written to descriptor 2, past Python, and say why it has failed."""
    with _silenced():
        os.write(2, b"looking for GPUs\n")
    assert capfd.readouterr().err == ""
    with pytest.raises(ImportError):
        _fail()
    assert capfd.readouterr().err == "libcudart.so is missing\n"


def test_tensorflow_shows_messages_only_if_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook does not ask for them."""
    shown: list[bool] = []
    monkeypatch.setattr(many_clones, "plan_of", lambda *_, verbose, **_more: shown.append(verbose))
    monkeypatch.setattr(many_clones, "why_not", lambda _: "it is small")
    spec = grammar.read("m.tfdeploy", text=GOOD).spec
    assert spec is not None
    reasons = {many_clones.map_by_kinds(spec), many_clones.map_by_kinds(spec, verbose=True)}
    assert (reasons, shown) == ({"it is small"}, [False, True])
