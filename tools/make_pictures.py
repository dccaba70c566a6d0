"""Make the pictures of the documentation: screenshots of the placement page, and curves of a run.

Run it from the root of the project, as `python -m tools.make_pictures`. It needs Chromium. Beside the
pictures it writes `sources.json`, with a digest of what each was made of: the spec, and the files that draw.
With `--check`, it names the pictures whose sources have changed since, for which no browser is needed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from tests.browser import find_chromium, start_browser
from tests.docs.pages import blocks_of

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
SOURCES = FOLDER / "sources.json"
PAGE = ROOT / "compiler" / "report" / "page"
SHOW = ROOT / "tfdeploy" / "runtime" / "show"


def first_spec() -> str:
    """Return the spec of the first page of the documentation."""
    return next(each.text for each in blocks_of(ROOT / "docs" / "index.md") if each.kind == "tfdeploy")


def start_spec() -> str:
    """Return the spec that `tfdeploy init` writes."""
    return (ROOT / "tfdeploy" / "templates" / "start.tfdeploy").read_text(encoding="utf-8")


def digits_spec() -> str:
    """Return the spec of the digits among the examples."""
    return (ROOT / "examples" / "digits.tfdeploy").read_text(encoding="utf-8")


def transformer_spec() -> str:
    """Return the spec of the transformer among the examples, its second half on a second GPU."""
    text = (ROOT / "examples" / "transformer.tfdeploy").read_text(encoding="utf-8")
    text = text.replace("  cpu = 2\n", "  gpu = 2\n")
    halves = '  ops("encoder_1/*") -> group[1]\n  ops("logits/*") -> group[1]\n'
    return text.replace("  clones -> cpu[*]\n", f"  clones -> groups(gpu[*], size = 2)\n{halves}")


@frozen
class Screenshot:
    """The placement page of a spec, in a window of some size.

    Attributes:
        spec: Returns the text of the spec.
        state: What is open and chosen on the page, as its address says it.
        width: The width of the window, in pixels.
        height: The height of the window, in pixels.
        part: The part of the page that is scrolled to, by its id; empty for the beginning.
        settings: Attributes of the spec that are set, as pairs.
        against: If given, the page is that of the spec beside itself with these attributes set.
        measured: Whether the spec is calibrated and run, and a step of the run is beneath the timeline. The
            data is that of the examples.
    """

    spec: Callable[[], str]
    state: str
    width: int
    height: int
    part: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    against: tuple[tuple[str, str], ...] = ()
    measured: bool = False

    def sources(self) -> list[bytes]:
        """Return everything that the picture depends on, save the graph that TensorFlow builds."""
        files = sorted(PAGE.rglob("*"), key=lambda each: each.name)
        drawing = [each.read_bytes() for each in files if each.suffix in {".css", ".html", ".js"}]
        return [
            self.spec().encode(),
            repr((self.state, self.width, self.height, *self._more())).encode(),
            *drawing,
        ]

    def make(self, file: Path) -> None:
        """Write the picture."""
        program = find_chromium()
        if program is None:
            sys.exit("there is no Chromium to make screenshots with")
        with tempfile.TemporaryDirectory(prefix="tfdeploy-pictures-") as folder:
            spec, page = Path(folder, "digits.tfdeploy"), Path(folder, "map.html")
            spec.write_text(self.spec(), encoding="utf-8")
            text = measured_page(spec, self.settings) if self.measured else self._page(spec)
            page.write_text(text.replace(f"{folder}/", ""), encoding="utf-8")
            with start_browser(program, Path(folder, "profile")) as tab:
                size = {"width": self.width, "height": self.height}
                tab.call("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)
                tab.call("Emulation.setScrollbarsHidden", hidden=True)
                tab.open(page, f"#{self.state}")
                if self.part:
                    tab.evaluate(f"document.getElementById({self.part!r}).scrollIntoView()")
                taken = tab.call("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(taken["data"]))

    def _more(self) -> tuple[object, ...]:
        return self.part, self.settings, self.against, *([True] if self.measured else [])

    def _page(self, path: Path) -> str:
        """Return the page of a spec, or of it beside itself with other settings."""
        import tfdeploy
        from compiler.report.compare import compare
        from compiler.report.page.data import Side, lines_of, texts_of
        from compiler.report.page.html import diff_page
        from tfdeploy.looking import map_of

        graph = tfdeploy.compile(tfdeploy.load(path, dict(self.settings)), emulate=True)
        if not self.against:
            return tfdeploy.to_html(graph)
        other = tfdeploy.compile(tfdeploy.load(path, dict(self.settings + self.against)), emulate=True)
        words = "".join(f", {name}={value}" for name, value in self.against)
        sides = [
            Side(label, placement, lines_of(placement, texts_of(each.plan.spec)))
            for label, each, placement in (
                (str(path), graph, map_of(graph)),
                (f"{path}{words}", other, map_of(other)),
            )
        ]
        return diff_page(sides[0], sides[1], compare(sides[0].placement, sides[1].placement))


def measured_page(spec: Path, settings: tuple[tuple[str, str], ...]) -> str:
    """Return the page of a spec among the examples, with a step of a run beneath its forecast."""
    shutil.copytree(ROOT / "examples" / "data" / "digits", spec.parent / "data" / "digits")
    run, page = spec.parent / "run", spec.parent / "measured.html"
    short = (("train.directory", str(run)), ("train.steps", "60"))
    for words, more in (
        (["calibrate", str(spec)], ()),
        (["compile-and-run", str(spec), "--profile", "5"], short),
        (["plan", str(spec), "--measured", str(run / "profile" / "trace.json"), "--html", str(page)], ()),
    ):
        changed = [word for name, value in (*settings, *more) for word in ("--set", f"{name}={value}")]
        subprocess.run([sys.executable, "-m", "tfdeploy", *words, *changed], check=True, capture_output=True)
    return page.read_text(encoding="utf-8")


@frozen
class Curves:
    """The curves of a run of the spec that `tfdeploy init` writes.

    Attributes:
        score: What is drawn.
    """

    score: str

    def sources(self) -> list[bytes]:
        """Return everything that the picture depends on, save the numbers of the run."""
        return [start_spec().encode(), self.score.encode(), (SHOW / "runs.py").read_bytes()]

    def make(self, file: Path) -> None:
        """Write the picture."""
        import tfdeploy
        from tfdeploy.runtime.show.runs import picture, read_curves
        from tfdeploy.templates import START, templates

        with tempfile.TemporaryDirectory(prefix="tfdeploy-pictures-") as folder:
            spec = Path(folder, "start.tfdeploy")
            for path, text in templates()[START].files(spec).items():
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            run = Path(folder, "run")
            settings = {
                "train.directory": str(run),
                "train.log_every": 5,
                "train.evaluate_every": 25,
                "train.seed": 1,
            }
            tfdeploy.run(tfdeploy.load(spec, settings))
            file.write_text(picture(read_curves([run], self.score), self.score), encoding="utf-8")


PICTURES: dict[str, Screenshot | Curves] = {
    "first.png": Screenshot(first_spec, "open=clone_1&sel=clone_1/dense/MatMul", 720, 1080),
    "placement.png": Screenshot(first_spec, "open=clone_1&sel=clone_1/dense", 1280, 1200),
    "timeline.png": Screenshot(
        first_spec,
        "by=flops&sort=all&open=clone_1&sel=clone_1/dense/MatMul",
        1280,
        1000,
        "timeline-section",
        (("devices.kind", "v100"), ("devices.gpu", "2")),
    ),
    "measured.png": Screenshot(
        digits_spec, "", 1280, 1000, "timeline-section", (("clones.batch", "256"),), measured=True
    ),
    "model.png": Screenshot(
        transformer_spec, "layer=4,encoder/multi_head_attention", 1280, 900, "model-section"
    ),
    "diff.png": Screenshot(
        first_spec,
        "sel=clone_2/dense/MatMul",
        1280,
        1000,
        against=(("clones.batch", "64"), ("devices.gpu", "2")),
    ),
    "narrow.png": Screenshot(first_spec, "open=clone_1&sel=clone_1/dense", 390, 900),
    "curves.svg": Curves("loss"),
}
"""The pictures by their files."""


def digest(picture: Screenshot | Curves) -> str:
    """Return the SHA-256 of the sources of a picture, in hexadecimal digits."""
    whole = hashlib.sha256()
    for each in picture.sources():
        whole.update(len(each).to_bytes(8))
        whole.update(each)
    return whole.hexdigest()


def stale() -> list[str]:
    """Return the names of pictures that are missing, or whose sources are others than when they were made."""
    known = json.loads(SOURCES.read_text(encoding="utf-8")) if SOURCES.exists() else {}
    return [
        name
        for name, picture in PICTURES.items()
        if not (FOLDER / name).exists() or known.get(name) != digest(picture)
    ]


def main(arguments: list[str]) -> int:
    """Make all pictures, or name those that are out of date and return 1."""
    if "--check" in arguments:
        for name in stale():
            print(f"docs/pictures/{name}: out of date; run `python -m tools.make_pictures`", file=sys.stderr)
        return 1 if stale() else 0
    FOLDER.mkdir(exist_ok=True)
    for name, picture in PICTURES.items():
        picture.make(FOLDER / name)
        print(f"docs/pictures/{name}: written")
    digests = {name: digest(picture) for name, picture in PICTURES.items()}
    SOURCES.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
