"""What the commands that need no graph write, in sessions that `tests/golden/cli/` has to be read.

Each session is in a folder with some files, of which `good.tfdeploy` is a good spec.
"""

from collections.abc import Callable

import pytest

from tests.cli.conftest import GOOD, Command
from tests.specs import CLASSES

WRONG = GOOD.replace("Dense", "Dens")
LOOSE = GOOD.replace("  x = input(float32, [4])", "    x=input( float32,[4] )   # four  ")
OLD = GOOD.replace("tfdeploy = 1\n\n", "")
UNEVEN = f"{CLASSES}devices {{ cpu = 3 }}\nclones {{ count = 3, global_batch = 64 }}\n"
LAYERS = """\
tfdeploy = 1
model "m" {
  x = input(string, [])
  a = x -> StringLookup(vocabulary = "gs://b/words.txt") -> Embedding(4, 2)
  y = a -> Dense(2, weights = "gs://b/d.keras") -> Dense(2)
  output = y
}
train { weights { "*" -> "gs://b/m.keras" } }
"""
PARTS = """\
tfdeploy = 1
include = ["parts/model.tfdeploy"]

let {
  towers = 2
  rate = 1 / 4
}

devices { cpu = towers }
clones { count = towers, batch = 8 }
update { optimizer = SGD(rate) }
"""
MODEL = CLASSES.removeprefix("tfdeploy = 1\n\n")
TREE: dict[str, str | bytes] = {
    "b/z.tfdeploy": WRONG,
    "b/a.tfdeploy": GOOD,
    "a/deep/er/loose.tfdeploy": GOOD.replace("[4])", "[4] )"),
    "a/notes.txt": "no spec",
    ".hidden/wrong.tfdeploy": "?",
    ".venv/wrong.tfdeploy": "?",
    "b/build/wrong.tfdeploy": "?",
    "b/.half-written.tfdeploy": "?",
    "empty/notes.txt": "no spec",
    "folder.tfdeploy/notes.txt": "no spec",
}
NO_TEXT: dict[str, str | bytes] = {
    "wide": "\ufefftfdeploy".encode("utf-16"),
    "zero": b"a\0b\xff",
    "latin": b"caf\xe9 \0",
    "archive": b"PK\x03\x04ab\xff",
    "hdf": b"\x89HDF\r\n\x1a\n\0",
    "packed": b"\x1f\x8b\x08\0",
}
ADDRESSES = (
    "train.directory=gs://b/x",
    "train.weights=s3://b/x.keras",
    'data.train=csv("http://h/*.csv", x = "x")',
    'data.test=npz("hdfs://h/a.npz")',
    'data.train=mnist("a.idx", "ftp://h/b.idx")',
    'data.train=images(path = "file:///a", size = [2, 2])',
)

SESSIONS: dict[str, tuple[dict[str, str | bytes], tuple[str, ...]]] = {
    "check": (
        {
            "wrong.tfdeploy": WRONG,
            "other.tfdeploy": WRONG.replace("Dens(2)", "Dense(2, bias = 1)"),
            "code.tfdeploy": GOOD.replace("Dense(2)", 'python("nowhere:layer")'),
            "uneven.tfdeploy": UNEVEN,
            "strange.tfdeploy": b"\xff\xfe",
            "call": 'tfdeploy = 1\nmodel "m" { x = inputt() }\n',
        },
        (
            "check good.tfdeploy",
            "check wrong.tfdeploy",
            "check other.tfdeploy good.tfdeploy nowhere.tfdeploy wrong.tfdeploy --format concise",
            "check good.tfdeploy --set clones.count=many --format concise",
            "check code.tfdeploy --format concise",
            "check code.tfdeploy --allow-python",
            "check uneven.tfdeploy --format concise",
            "check good.tfdeploy --format json",
            "check wrong.tfdeploy nowhere.tfdeploy strange.tfdeploy --format json",
            "check wrong.tfdeploy nowhere.tfdeploy strange.tfdeploy --format github",
            "check - < good.tfdeploy",
            "check - --format concise < call",
            "check - --format concise < strange.tfdeploy",
            "check - --fix < good.tfdeploy",
        ),
    ),
    "no_text": (NO_TEXT, tuple(f"check {name}" for name in NO_TEXT)),
    "addresses": (
        {"layers.tfdeploy": LAYERS},
        (
            *(f"check good.tfdeploy --set '{each}'" for each in ADDRESSES),
            "check layers.tfdeploy --format concise",
            "check gs://b/x.tfdeploy",
            "plan good.tfdeploy --html=gs://b/x.html",
            "ls",
        ),
    ),
    "fix": (
        {
            "old.tfdeploy": OLD,
            "kept.tfdeploy": OLD.replace("Dense", "Dens"),
            "odd.tfdeploy": GOOD.replace("x -> Dense(2)", "x => Dense(2) -> -> Dense(2)"),
        },
        (
            "check old.tfdeploy --format concise",
            "cat old.tfdeploy",
            "check old.tfdeploy --fix",
            "cat old.tfdeploy",
            "check kept.tfdeploy --fix --format concise",
            "cat kept.tfdeploy",
            "check odd.tfdeploy --format concise",
            "check odd.tfdeploy --fix",
            "cat odd.tfdeploy",
            "ls",
        ),
    ),
    "fmt": (
        {
            "loose.tfdeploy": LOOSE.rstrip("\n"),
            "wrong.tfdeploy": LOOSE.replace("Dense(2)", "Dense(2"),
            "unknown.tfdeploy": LOOSE.replace("Dense", "Dens"),
            "odd.tfdeploy": b"\xff\xfe",
        },
        (
            "fmt --check loose.tfdeploy good.tfdeploy",
            "fmt --check good.tfdeploy",
            "fmt --check - < loose.tfdeploy",
            "fmt --diff loose.tfdeploy",
            "fmt --diff --check loose.tfdeploy",
            "cat loose.tfdeploy",
            "fmt - < loose.tfdeploy",
            "fmt - < unknown.tfdeploy",
            "fmt - < odd.tfdeploy",
            "fmt loose.tfdeploy good.tfdeploy",
            "cat loose.tfdeploy",
            "fmt loose.tfdeploy",
            "fmt wrong.tfdeploy",
            "cat wrong.tfdeploy",
            "fmt nowhere.tfdeploy",
            "fmt odd.tfdeploy",
        ),
    ),
    "folders": (
        TREE,
        (
            "check .",
            "check b good.tfdeploy b/a.tfdeploy --format json",
            "check a good.tfdeploy a",
            "check empty",
            "check empty --format json",
            "check good.tfdeploy empty",
            "fmt empty",
            "fmt --check .",
            "fmt .",
            "cat a/deep/er/loose.tfdeploy",
            "cat b/build/wrong.tfdeploy",
        ),
    ),
    "show": (
        {
            "spec.tfdeploy": PARTS,
            "parts/model.tfdeploy": MODEL,
            "old.tfdeploy": 'model "m" {\n  x = input(float32, [4])\n  output = x\n}\n',
        },
        (
            "show spec.tfdeploy --set let.towers=4",
            "show good.tfdeploy --set clones.count=0",
            "show - --set clones.batch=7 < good.tfdeploy",
            "show old.tfdeploy",
        ),
    ),
    "usage": (
        {},
        (
            "chek",
            "check",
            "check good.tfdeploy --frmat json",
            "check good.tfdeploy --format xml",
            "check good.tfdeploy --set clones.count",
            "check good.tfdeploy --set =4",
            "check good.tfdeploy --color sometimes",
            "fmt good.tfdeploy --set clones.count=4",
            "verify good.tfdeploy --tolerance nan",
            "",
            "explain TFD999",
            "explain no-such-devise",
            "init --template gtp",
            "init --template nothing",
            "init spec.txt",
            "ls",
        ),
    ),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_shows_what_it_should(
    command: Command, golden: Callable[[str, str], None], name: str
) -> None:
    """Results, messages and exit codes are those that were read and found good."""
    files, lines = SESSIONS[name]
    for file, content in files.items():
        command.write(file, content)
    if name == "folders":
        (command.directory / "b" / "round").symlink_to(command.directory)
    golden(f"cli/{name}.txt", command.session(*lines))
