"""The mode of Emacs."""

from __future__ import annotations

from collections.abc import Iterable

from dsl.schema import vocabulary

TEMPLATE = """\
;;; tfdeploy-mode.el --- Specs of tfdeploy -*- lexical-binding: t; -*-

;; Written by `python -m tools.make_editors`; change the tables that it reads, not this file.
;; Package-Requires: ((emacs "27.1"))
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Colours, comments, indentation, and the language server by Eglot or lsp-mode.

;;; Code:

(defgroup tfdeploy nil
  "Specs of tfdeploy."
  :group 'languages)

(defcustom tfdeploy-command '("tfdeploy" "lsp")
  "The command that starts the language server."
  :type '(repeat string)
  :group 'tfdeploy)

(defconst tfdeploy-blocks
  '({blocks}))

(defconst tfdeploy-attributes
  '({attributes}))

(defconst tfdeploy-functions
  '({functions}))

(defconst tfdeploy-words
  '({constants}))

(defconst tfdeploy-font-lock-keywords
  `((,(concat (regexp-opt tfdeploy-blocks 'symbols) "[ \\t]*\\\\(?:\\"[^\\"\\n]*\\"\\\\)?[ \\t]*=?[ \\t]*{{")
     1 font-lock-keyword-face)
    (,(concat "^[ \\t]*" (regexp-opt tfdeploy-attributes 'symbols) "[ \\t]*=") 1 font-lock-variable-name-face)
    (,(regexp-opt '({literals}) 'symbols) . font-lock-constant-face)
    (,(concat (regexp-opt tfdeploy-functions 'symbols) "(") 1 font-lock-builtin-face)
    ("\\\\_<\\\\([A-Za-z_][A-Za-z0-9_]*\\\\)(" 1 font-lock-function-name-face)
    (,(regexp-opt tfdeploy-words 'symbols) . font-lock-constant-face)))

(defvar tfdeploy-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?# "<" table)
    (modify-syntax-entry ?\\n ">" table)
    (modify-syntax-entry ?_ "_" table)
    (modify-syntax-entry ?\\" "\\"" table)
    table))

(defun tfdeploy-indent-line ()
  "Indent a line by the brackets around it; a step of a flow by one level more."
  (interactive)
  (let* ((depth (car (syntax-ppss (line-beginning-position))))
         (column (save-excursion
                   (back-to-indentation)
                   (cond ((looking-at "[])}}]") (* 2 (max 0 (1- depth))))
                         ((looking-at "->") (* 2 (1+ depth)))
                         (t (* 2 depth))))))
    (save-excursion (indent-line-to column))
    (when (< (current-column) column)
      (back-to-indentation))))

;;;###autoload
(define-derived-mode tfdeploy-mode prog-mode "tfdeploy"
  "Major mode for specs of tfdeploy."
  (setq-local comment-start "# ")
  (setq-local comment-start-skip "#+[ \\t]*")
  (setq-local indent-line-function #'tfdeploy-indent-line)
  (setq-local font-lock-defaults '(tfdeploy-font-lock-keywords)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\\\.tfdeploy\\\\'" . tfdeploy-mode))

(with-eval-after-load 'eglot
  (add-to-list (intern "eglot-server-programs") (cons 'tfdeploy-mode tfdeploy-command)))

(declare-function lsp-register-client "ext:lsp-mode")
(declare-function make-lsp-client "ext:lsp-mode")
(declare-function lsp-stdio-connection "ext:lsp-mode")

(with-eval-after-load 'lsp-mode
  (add-to-list (intern "lsp-language-id-configuration") '(tfdeploy-mode . "tfdeploy"))
  (lsp-register-client
   (make-lsp-client :new-connection (lsp-stdio-connection (lambda () tfdeploy-command))
                    :major-modes '(tfdeploy-mode)
                    :server-id 'tfdeploy)))

(provide 'tfdeploy-mode)
;;; tfdeploy-mode.el ends here
"""


def mode() -> str:
    """Return the text of `tfdeploy-mode.el`."""
    return TEMPLATE.format(
        blocks=_strings(vocabulary.blocks()),
        attributes=_strings(vocabulary.attributes()),
        functions=_strings(vocabulary.functions()),
        constants=_strings(vocabulary.constants()),
        literals=_strings(vocabulary.LITERALS),
    )


def _strings(words: Iterable[str]) -> str:
    """Return words as strings of Lisp, some in each line."""
    quoted = [f'"{each}"' for each in words]
    rows = [" ".join(quoted[at : at + 8]) for at in range(0, len(quoted), 8)]
    return "\n    ".join(rows)
