"""Forked processes behave as executed ones do, to those who start them and to the program in them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked

ABOUT = """
import atexit, os, sys, threading
atexit.register(print, "at exit")
print(sys.argv[1:], os.getcwd(), os.getppid(), os.environ.get("COLOUR"), __name__, sys.stdin.read())
print(sorted(each for each in map(int, os.listdir("/proc/self/fd")) if each < 500)[:4])
print(os.getsid(0) == os.getpid())
print("error", file=sys.stderr)
threading.Thread(target=lambda: print("of a thread")).start()
if sys.argv[1:] == ["bad"]:
    1 / 0
sys.exit(7)
"""


@pytest.mark.parametrize("argument", ["good", "bad"])
def test_what_a_program_sees_and_leaves(tmp_path: Path, argument: str) -> None:
    """Its arguments, folder, parent, environment, streams and end are those of an executed one."""
    found = []
    for start in (subprocess.Popen, forked.Popen):
        with start(
            [sys.executable, "-c", ABOUT, argument],
            cwd=tmp_path,
            env={**os.environ, "COLOUR": "red"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        ) as process:
            out, err = process.communicate("given")
        found.append((process.returncode, out, err.splitlines()[0], err.splitlines()[-1]))
    assert found[0] == found[1]
    assert found[0][0] == (7 if argument == "good" else 1)
    assert str(os.getpid()) in found[0][1]


def test_it_has_tensorflow_and_one_thread() -> None:
    """Both libraries are loaded, and nothing of them has started."""
    code = "import sys, os; print({'keras', 'tensorflow'} <= {*sys.modules}, os.listdir('/proc/self/task'))"
    with forked.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate()[0] == f"True ['{process.pid}']\n"


def test_workers_are_forked(pytestconfig: pytest.Config) -> None:
    """A process that runs tests beside others has not been executed, unless coverage is measured."""
    side_by_side = hasattr(pytestconfig, "workerinput")
    executed = not side_by_side or pytestconfig.pluginmanager.hasplugin("_cov")
    assert Path(f"/proc/self/fd/{forked.WORDS}").exists() != executed


def test_signals_reach_it(tmp_path: Path) -> None:
    """It can be killed, interrupted, and found by its command."""
    code = "import time; print('there', flush=True); time.sleep(600)"
    for number in (signal.SIGKILL, signal.SIGINT):
        process = forked.Popen(
            [sys.executable, "-c", code, "word"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout.readline() == b"there\n"
        assert forked.words_of(process.pid)[-1] == "word"
        process.send_signal(number)
        process.communicate()
        assert process.returncode == -number
        assert forked.words_of(process.pid) == []
