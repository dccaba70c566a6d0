"""A real Emacs, without a screen, with the mode of `editors/emacs`."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.folders import ROOT

pytestmark = pytest.mark.skipif(shutil.which("emacs") is None, reason="needs Emacs")

MODE = ROOT / "editors" / "emacs" / "tfdeploy-mode.el"
TEXT = """\
model "m" {
x = input(int32, [4]) # model
-> Dense(2)
}
"""
SESSION = """\
(load-file %s)
(with-temp-buffer
  (insert %s)
  (setq buffer-file-name "spec.tfdeploy")
  (set-auto-mode)
  (indent-region (point-min) (point-max))
  (font-lock-ensure)
  (princ (json-encode
          (list (cons 'mode major-mode)
                (cons 'text (buffer-substring-no-properties (point-min) (point-max)))
                (cons 'faces
                      (mapcar (lambda (word)
                                (goto-char (point-min))
                                (search-forward word)
                                (cons word (get-text-property (- (point) 1) 'face)))
                              '("model" "input" "int32" "# model" "Dense"))))))
  (set-buffer-modified-p nil))
"""


def test_the_mode_indents_and_colours() -> None:
    """The ending of a file selects it; steps of a flow stand deeper; words look like what they are."""
    program = SESSION % (json.dumps(str(MODE)), json.dumps(TEXT))
    done = subprocess.run(
        ["emacs", "-Q", "--batch", "--eval", f"(progn (require 'json) {program})"],  # noqa: S607 the one that is there
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["mode"] == "tfdeploy-mode"
    assert found["text"] == 'model "m" {\n  x = input(int32, [4]) # model\n    -> Dense(2)\n}\n'
    assert found["faces"] == {
        "model": "font-lock-keyword-face",
        "input": "font-lock-builtin-face",
        "int32": "font-lock-constant-face",
        "# model": "font-lock-comment-face",
        "Dense": "font-lock-function-name-face",
    }


def test_the_mode_compiles_without_warnings(tmp_path: Path) -> None:
    """What Emacs warns of is an error here."""
    copy = shutil.copy(MODE, tmp_path)
    strict = "(setq byte-compile-error-on-warn t)"
    command = ["emacs", "-Q", "--batch", "--eval", strict, "-f", "batch-byte-compile", copy]
    subprocess.run(command, check=True, capture_output=True)
