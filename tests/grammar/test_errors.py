"""What people see of each mistake: a spec and beside it the whole text of its errors, read by eye.

Specs are sorted by the hundred of their first code: `tests/golden/errors/TFD1xx/NAME.tfdeploy`. Their lines
`# --set PATH=VALUE` are given as on the command line; `# to be trained` tells what training lacks, too.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import grammar
from dsl.diagnostics import SpecError
from dsl.formats.render import render
from tests.folders import ROOT
from tfdeploy.runtime.plans import require_trainable

ERRORS = ROOT / "tests" / "golden" / "errors"
NAMES = sorted(f"{path.parent.name}/{path.stem}" for path in ERRORS.glob("*/*.tfdeploy"))


def overrides(text: str) -> list[tuple[str, str]]:
    """Return what the comments of a spec want to be set."""
    lines = [line.removeprefix("# --set ") for line in text.splitlines() if line.startswith("# --set ")]
    return [(path, value) for path, _, value in (line.partition("=") for line in lines)]


@pytest.mark.parametrize("name", NAMES)
def test_mistake_reads_as_it_should(
    name: str, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors of a wrong spec are those that were read and found good."""
    monkeypatch.chdir((ERRORS / name).parent)
    path = f"{Path(name).name}.tfdeploy"
    text = Path(path).read_text(encoding="utf-8")
    reading = grammar.read(path, overrides(text))
    said = list(reading.diagnostics)
    if "# to be trained" in text.splitlines():
        assert reading.spec is not None
        with pytest.raises(SpecError) as caught:
            require_trainable(reading.spec)
        said += caught.value.diagnostics
    golden(f"errors/{name}.err", render(said))


def test_there_are_enough_mistakes() -> None:
    """At least eighty different mistakes are held to their words."""
    assert len(NAMES) >= 80
