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
  '("let" "model" "output" "metrics" "layer" "data" "devices" "job"
    "clones" "place" "update" "optimizer" "train" "weights" "expect"))

(defconst tfdeploy-attributes
  '("tfdeploy" "include" "loss" "regularize" "output" "train" "validation" "test"
    "per_clone" "gpu" "cpu" "gpu_memory" "cpu_memory" "link" "kind" "soft_placement"
    "allow_growth" "visible" "log_placement" "intra_op_threads" "inter_op_threads" "tasks" "hosts" "count"
    "batch" "global_batch" "mode" "optimizer" "freeze" "reduce" "aggregate" "pack"
    "compress" "clip" "accumulate" "schedule" "recompute" "ema" "batch_norm" "precision"
    "replication" "backup" "staleness" "average_every" "average_slots" "steps" "epochs" "directory"
    "checkpoint_every" "evaluate_every" "keep" "log_every" "summaries" "track" "prometheus" "seed"
    "deterministic" "weights" "best" "patience" "task_timeout"))

(defconst tfdeploy-functions
  '("csv" "npz" "tfrecord" "parquet" "arrow" "images" "cifar10" "mnist"
    "synthetic" "python" "feature" "shuffle" "cache" "take" "skip" "window"
    "scale" "reshape" "cast" "one_hot" "pad" "bucket" "center_crop" "random_crop"
    "random_flip" "random_color" "cutout" "mixup" "rename" "multiple_of" "add_n" "tree"
    "hierarchical" "ring" "collective" "bfloat16" "float16" "power_sgd" "global_norm" "norm"
    "value" "EMA" "memory" "scopes" "highest" "lowest" "mlflow" "input"
    "layer" "parameter" "repeat" "weight" "imbalance" "traffic" "step_time" "busy"
    "ops" "balanced" "round_robin" "sharded" "replicated" "groups" "group"))

(defconst tfdeploy-words
  '("split" "shard" "t4" "p100" "v100" "a10" "a100" "h100"
    "cpu" "sync" "async" "local" "mean" "sum" "gpipe" "one_f_one_b"
    "first" "synchronized" "float32" "mixed_bfloat16" "mixed_float16" "in_graph" "between_graph" "scalars"
    "gradients" "all" "clones" "variables" "slots" "inputs" "updates" "ops"
    "summaries" "evaluation" "balanced" "round_robin" "sharded" "replicated" "groups" "group"
    "float16" "bfloat16" "float64" "int8" "int16" "int32" "int64" "uint8"
    "uint16" "uint32" "uint64" "bool" "string"))

(defconst tfdeploy-font-lock-keywords
  `((,(concat (regexp-opt tfdeploy-blocks 'symbols) "[ \t]*\\(?:\"[^\"\n]*\"\\)?[ \t]*=?[ \t]*{")
     1 font-lock-keyword-face)
    (,(concat "^[ \t]*" (regexp-opt tfdeploy-attributes 'symbols) "[ \t]*=") 1 font-lock-variable-name-face)
    (,(regexp-opt '("true" "false" "none") 'symbols) . font-lock-constant-face)
    (,(concat (regexp-opt tfdeploy-functions 'symbols) "(") 1 font-lock-builtin-face)
    ("\\_<\\([A-Za-z_][A-Za-z0-9_]*\\)(" 1 font-lock-function-name-face)
    (,(regexp-opt tfdeploy-words 'symbols) . font-lock-constant-face)))

(defvar tfdeploy-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?# "<" table)
    (modify-syntax-entry ?\n ">" table)
    (modify-syntax-entry ?_ "_" table)
    (modify-syntax-entry ?\" "\"" table)
    table))

(defun tfdeploy-indent-line ()
  "Indent a line by the brackets around it; a step of a flow by one level more."
  (interactive)
  (let* ((depth (car (syntax-ppss (line-beginning-position))))
         (column (save-excursion
                   (back-to-indentation)
                   (cond ((looking-at "[])}]") (* 2 (max 0 (1- depth))))
                         ((looking-at "->") (* 2 (1+ depth)))
                         (t (* 2 depth))))))
    (save-excursion (indent-line-to column))
    (when (< (current-column) column)
      (back-to-indentation))))

;;;###autoload
(define-derived-mode tfdeploy-mode prog-mode "tfdeploy"
  "Major mode for specs of tfdeploy."
  (setq-local comment-start "# ")
  (setq-local comment-start-skip "#+[ \t]*")
  (setq-local indent-line-function #'tfdeploy-indent-line)
  (setq-local font-lock-defaults '(tfdeploy-font-lock-keywords)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.tfdeploy\\'" . tfdeploy-mode))

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
