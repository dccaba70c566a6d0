"""Texts of specs, and what the server is asked about them without a process."""

from pathlib import Path

from dsl import syntax
from tfdeploy.lsp.diagnostics import examine
from tfdeploy.lsp.documents import Document, Documents
from tfdeploy.lsp.names import Names, Place
from tfdeploy.lsp.settings import Settings

SMALL = """\
tfdeploy = 1

let {
  width = 8
}

layer "twice" {
  units = parameter(int, 4)
  x = input()
  output = x -> Dense(units) -> Dense(units)
}

model "small" {
  image = input(float32, [4])
  digit = input(int32, [])
  hidden = image -> twice(units = width) -> Dropout(0.5)
  logits = hidden -> Dense(10)
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)

  metrics {
    accuracy = [digit, logits] -> SparseCategoricalAccuracy()
  }
}

data {
  train = synthetic(100, image = feature(float32, [4]), digit = feature(int32, [], 10))
    -> scale(image, 0.5)
}

devices {
  cpu = 4
}

clones {
  batch = 8
}

place {
  clones -> cpu[*]
  variables -> cpu[0]
}

update {
  mode = sync
  optimizer = Adam(1e-3)
}

train {
  steps = 10
}
"""
"""A spec without errors that has a name of every kind, but for those of clusters."""


def including(name: str) -> str:
    """Return the small spec, which includes a file that has its constant `width`."""
    main = SMALL.replace("tfdeploy = 1\n", f'tfdeploy = 1\ninclude = ["{name}"]\n')
    return main.replace("let {\n  width = 8\n}\n", "")


class Opened:
    """A text that is open in an editor, with a place marked by `|`.

    Args:
        text: The text; the first `|` in it is taken out.
        path: Its file.
    """

    def __init__(self, text: str, path: Path = Path("/nowhere/spec.tfdeploy")) -> None:
        self.offset = max(text.find("|"), 0)
        self.documents = Documents()
        self.document: Document = self.documents.open(path.as_uri(), 1, text.replace("|", "", 1))
        read = examine(self.document, self.documents.texts, Settings())
        self.trees: tuple[syntax.File, ...] = read.reading.trees
        self.names: Names = read.names

    def at(self, offset: int) -> Place:
        """Return a place in the text."""
        return Place(self.document, offset, self.documents, self.trees, self.names)

    @property
    def place(self) -> Place:
        """The place that is marked."""
        return self.at(self.offset)


def small(old: str, new: str) -> Opened:
    """Return the small spec with its only `old` replaced by `new`, in which the place is marked."""
    assert SMALL.count(old) == 1, old
    return Opened(SMALL.replace(old, new))
