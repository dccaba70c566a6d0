"""`python -m benchmarks.editor`: how long an editor waits for the language server, and its memory.

A client starts the server, opens a spec, asks for its colours as editors do, and types in it. A keystroke
counts from the message that tells of it to the diagnostics of its version, which are there after a pause and
the reading of the whole text. Beside the time that passes stands the processor time of the server, which says
more if the machine is busy with other things. Specs are an example, made-up ones of 500 and 2,000 lines, and
one of 2,000 lines that repeats the layer block of an example, so that each line has more to be read.

A start is that of a server which has been started before on this machine, since the first one keeps compiled
code in the user's cache folder. The last line has the start of a server that finds nothing there.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from attrs import define, field

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
KEYSTROKES = 20
BOUNDS = {"start": 400.0, "keystroke": 250.0, "completion": 50.0, "memory": 90.0}
"""Milliseconds and, for memory, megabytes that the server is to stay below on 2,000 lines."""


def long_spec(lines: int) -> str:
    """Return a spec of about `lines` lines: constants, and a model whose layers follow each other."""
    text = ["tfdeploy = 1", "", "let {"]
    text += [f"  width_{number} = {8 + number}" for number in range(lines // 10)]
    text += ["}", "", 'model "long" {', "  image = input(float32, [64])", "  digit = input(int32, [])"]
    text += ["  x0 = image -> Dense(width_0)"]
    last = 0
    while len(text) < lines - 40:
        last += 1
        width = f"width_{last % (lines // 10)}"
        text += [
            f"  x{last} = x{last - 1}",
            f"    -> Dense({width}, activation = relu)",
            "    -> Dropout(0.1)",
        ]
        text += [""] if last % 5 == 0 else []
    text += [f"  logits = x{last} -> Dense(10)"]
    text += [
        "  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)",
        "}",
        "",
        "data {",
    ]
    text += ["  train = synthetic(100, image = feature(float32, [64]), digit = feature(int32, [], 10))", "}"]
    for block in (
        "devices {\n  cpu = 4\n}",
        "clones {\n  batch = 8\n}",
        "place {\n  clones -> cpu[*]\n  variables -> cpu[0]\n}",
        "update {\n  optimizer = Adam(1e-3)\n}",
        "train {\n  steps = 10\n}",
    ):
        text += ["", *block.split("\n")]
    return "\n".join(text) + "\n"


def dense_spec(lines: int) -> str:
    """Return a spec of about `lines` lines: the layer block of the Transformer, again and again."""
    text = (EXAMPLES / "transformer.tfdeploy").read_text()
    start, end = text.index("# Attention"), text.index("model")
    block, count = text[start:end], (lines - text.count("\n")) // text[start:end].count("\n")
    blocks = [block.replace("encoder", f"encoder_{number}") for number in range(count)]
    steps = [f"    -> encoder_{number}(heads = 4, inner = 64)\n" for number in range(count)]
    head, tail = text[end:].split("    -> GlobalAveragePooling1D", 1)
    return "".join([text[:end], *blocks, head, *steps, "    -> GlobalAveragePooling1D", tail])


@define
class Client:
    """A client of the language server that sends one message and waits for its answer.

    Attributes:
        cache: The cache folder of the server, or None for that of the user.
        started: How long the server took until it answered, in seconds.
    """

    cache: str | None = None
    _server: subprocess.Popen[bytes] = field(init=False)
    _number: int = field(default=0, init=False)
    started: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        """Start the server and note how long it takes until it answers."""
        environment = {**os.environ, "XDG_CACHE_HOME": self.cache} if self.cache else None
        begin = time.perf_counter()
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tfdeploy", "lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        self.started = time.perf_counter() - begin
        self.tell("initialized", {})

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        """Send a request and return its result."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while (message := self.receive()).get("id") != self._number:
            pass
        if "error" in message:
            raise RuntimeError(message["error"])
        return message["result"]

    def diagnostics(self, version: int) -> list[Any]:
        """Wait for the diagnostics of a version of the text, and return them."""
        while True:
            message = self.receive()
            params = message.get("params") or {}
            if (
                message.get("method") == "textDocument/publishDiagnostics"
                and params.get("version") == version
            ):
                return list(params["diagnostics"])

    def _send(self, message: Any) -> None:
        body = json.dumps(message).encode()
        assert self._server.stdin is not None
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._server.stdin.flush()

    def receive(self) -> Any:
        """Return the next message."""
        stream: IO[bytes] | None = self._server.stdout
        assert stream is not None
        length = 0
        while (line := stream.readline().strip()) or not length:
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return json.loads(stream.read(length))

    @property
    def busy(self) -> float:
        """The processor time of all threads of the server so far, in milliseconds."""
        tasks = Path(f"/proc/{self._server.pid}/task").iterdir()
        return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks) / 1e6

    @property
    def megabytes(self) -> float:
        """The resident memory of the server, in megabytes."""
        status = Path(f"/proc/{self._server.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1000

    def stop(self) -> None:
        """End the server."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        self._server.wait()


def measure(text: str) -> dict[str, list[float]]:
    """Return the measurements with one spec by their names, in milliseconds and, for memory, in megabytes."""
    client = Client()
    started = client.busy
    uri = "file:///spec.tfdeploy"
    client.tell("textDocument/didOpen", {"textDocument": _item(uri, text)})
    client.diagnostics(1)
    client.ask("textDocument/semanticTokens/full", {"textDocument": {"uri": uri}})
    at = text.index("  loss = [")
    line = text[:at].count("\n")
    typed = "  more = logits -> Dense(3)"
    keystrokes, completions, busy, answering = [], [], [], []
    for number in range(KEYSTROKES):
        version = number + 2
        character = typed[number] if number < len(typed) else "x"
        begin, before = time.perf_counter(), client.busy
        new = character if number else f"{character}\n"
        text = text[: at + number] + new + text[at + number :]
        document = {"uri": uri, "version": version}
        client.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        client.diagnostics(version)
        keystrokes.append(1000 * (time.perf_counter() - begin))
        busy.append(client.busy - before)
        begin, before = time.perf_counter(), client.busy
        place = {"line": line, "character": number + 1}
        client.ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": place})
        completions.append(1000 * (time.perf_counter() - begin))
        answering.append(client.busy - before)
    memory = client.megabytes
    client.stop()
    return {
        "start": [1000 * client.started],
        "keystroke": keystrokes,
        "completion": completions,
        "keystroke work": busy,
        "completion work": answering,
        "start work": [started],
        "memory": [memory],
    }


def first_start() -> float:
    """Return the processor time in milliseconds of a start that finds nothing in the cache folder."""
    with tempfile.TemporaryDirectory(prefix="tfdeploy-editor-") as folder:
        client = Client(folder)
        busy = client.busy
        client.stop()
    return busy


def _item(uri: str, text: str) -> dict[str, Any]:
    return {"uri": uri, "languageId": "tfdeploy", "version": 1, "text": text}


def percentile(values: list[float]) -> float:
    """Return the 95th percentile of values, or the value if there is only one."""
    return values[0] if len(values) == 1 else statistics.quantiles(values, n=20, method="inclusive")[-1]


def main() -> None:
    """Measure all specs, and print a table."""
    Client().stop()  # after which the cache folder has what a start keeps there
    texts = {
        "digits": (EXAMPLES / "digits.tfdeploy").read_text(),
        "500": long_spec(500),
        "2000": long_spec(2000),
        "dense": dense_spec(2000),
    }
    print("95th percentiles in milliseconds, in brackets processor time; memory in megabytes")
    print(f"{'spec':>8} {'lines':>6} {'start':>14} {'keystroke':>16} {'completion':>16} {'memory':>7}")
    for name, text in texts.items():
        found = {key: percentile(values) for key, values in measure(text).items()}
        pairs = [
            f"{found[key]:>{width}.0f} ({found[f'{key} work']:.0f})"
            for key, width in (("start", 8), ("keystroke", 10), ("completion", 10))
        ]
        print(f"{name:>8} {text.count(chr(10)):>6} {' '.join(pairs)} {found['memory']:>7.1f}")
    print(f"first start of all: ({first_start():.0f})")
    print(f"bounds: {', '.join(f'{name} {bound:g}' for name, bound in BOUNDS.items())}")


if __name__ == "__main__":
    main()
