"""TFD19x, TFD752, TFD753, TFD796 to TFD798: files, and what the operating system refuses to a command.

An error in reading a spec, TFD19x, ends a command with exit code 2.
"""

from __future__ import annotations

from dsl.diagnostics import Diagnostic
from dsl.errors.wording import Placeless, Wording, in_full
from dsl.source import Span

missing = Placeless("TFD190: there is no file {path:in_full}", file="{path}")
included_missing = Wording(
    "TFD190: there is no file {path:in_full}",
    text="cannot be included",
    notes=("a relative path starts at the directory of the file that includes",),
)
no_specs = Placeless(
    "TFD190: no file below {folder:in_full} ends in `{ending}`",
    notes=("hidden folders and folders called `build` are not searched",),
    file="{folder}",
)
included_too_deeply = Wording(
    "TFD111: {path:in_full} is not included: it is more than {deepest:d} files deep",
    text="cannot be included",
    notes=("its blocks would be missing from the spec",),
    help="include the files from the spec itself, which may include any number of them",
)
unreadable = Wording(
    "TFD191: {path:in_full} cannot be read: {reason}", help="name a spec in it: {specs?:some}", file="{path}"
)
not_a_spec = Wording(
    "TFD194: {path:in_full} is not included: it is no spec",
    text="cannot be included",
    notes=("the names of specs end in `{suffix}`, also of those that symbolic links lead to",),
)

_ENCODED = "save it as UTF-8; `iconv -f latin1 -t utf-8 FILE` converts a text in Latin-1"
_DAMAGED = "name a spec, or remove that byte if this was one: the file may be damaged"
_TRAINED = "name the spec that it was trained with; `weights` in `train` starts from such a file"

_KINDS = (
    (b"\xff\xfe", "UTF-16 text, not UTF-8", "save it as UTF-8; `iconv -f utf-16 -t utf-8 FILE` converts it"),
    (b"\xfe\xff", "UTF-16 text, not UTF-8", "save it as UTF-8; `iconv -f utf-16 -t utf-8 FILE` converts it"),
    (b"PK\x03\x04", "an archive, such as a `.keras` or `.npz` file, and no spec", _TRAINED),
    (b"\x89HDF\r\n", "an HDF5 file, such as one of weights, and no spec", _TRAINED),
    (b"\x1f\x8b", "a file that gzip packed, and no spec", "unpack it with `gunzip`"),
)
"""The first bytes of files that are taken for specs, with what they are and what to do."""

too_large = Wording(
    "TFD193: {path:in_full} is too large", notes=("a spec has at most {largest:,} bytes",), file="{path}"
)
empty = Wording(
    "TFD110: {path:in_full} is empty", help='a spec needs at least a `model "name" {{ ... }}` block'
)


def not_text(path: str, start: bytes, offset: int, span: Span | None, *, null: bool) -> Diagnostic:
    """Return the diagnostic of a file that is no UTF-8 text from the byte at `offset` on, perhaps a NUL."""
    kind, advice = next(
        ((kind, advice) for sign, kind, advice in _KINDS if start.startswith(sign)),
        ("not text" if null else "not UTF-8 text", _DAMAGED if null else _ENCODED),
    )
    note = "is NUL, which no text has" if null else "is the first that is not UTF-8"
    message, notes = f"{in_full(path)} is {kind}", (f"byte {offset + 1:,} {note}",)
    return Diagnostic("TFD192", message, span, notes=notes, help=advice, file=path)


# --- outputs that would overwrite something else ----------------------------------------------------------

output_is_read = Wording(
    "TFD752: {output:in_full} is read by this command, and would be overwritten",
    notes=("it is the same file as {read?:in_full}",),
    help="write to another file",
)
foreign_output = Placeless(
    "TFD753: {output:in_full} exists, and was not written by this command",
    help="write to another file, or replace this one with `--force`",
)
never_replaced = Placeless(
    "TFD753: {output:in_full} exists, and this command replaces no files",
    help="give the spec another name or folder",
)

# --- what the operating system refuses --------------------------------------------------------------------

refused = Placeless("TFD199: {path:in_full}: {reason}")
refused_something = Placeless(
    "TFD199: the operating system refused something that the command needs: {reason}"
)
too_few_files = Placeless(
    "TFD199: TensorFlow opens {needed:,} files, pipes and sockets, and the process may open {limit:,}",
    help="`ulimit -n {needed:d}`, or more, gives this shell more",
)
name_not_utf8 = Placeless(
    "TFD195: {name:in_full} is not UTF-8, as the names of files have to be that TensorFlow reads and writes",
    help="rename the file or the folder",
)
lost_output = Placeless("TFD796: standard output cannot be written: {reason}")
output_given_up = Placeless(
    "warning TFD796: standard output cannot be written: {reason}",
    notes=("the run goes on without it; its progress is in the history of its run directory",),
)
out_of_memory = Placeless(
    "TFD797: the process may not have as much memory as the command needs",
    help="`ulimit -v` shows the limit of this shell, and `tfdeploy doctor` the memory of the machine",
)
no_current_folder = Placeless(
    "TFD798: the current folder is not there any more",
    help="change to a folder that is there, as with `cd ~`",
)
keras_settings = Placeless(
    "TFD191: Keras cannot read its settings: {reason}",
    notes=("it reads them before anything else is done, and specs do not depend on them",),
    help="correct or remove `keras.json` in `~/.keras`, and variables that begin with `KERAS_`",
)
eager_execution_off = Placeless(
    "TFD799: TensorFlow only builds graphs in this process, and does not run ops at once",
    help="leave out `tf.compat.v1.disable_eager_execution()` and `disable_v2_behavior()`",
)


def out_of_addresses(limit: int, needed: int) -> Diagnostic:
    """Return the diagnostic of a process that may have fewer bytes of addresses than TensorFlow reserves."""
    more, allowed = f"{needed >> 20:,} MiB", f"{limit >> 20:,} MiB"
    return Diagnostic(
        "TFD797",
        f"TensorFlow reserves {more} of addresses here, and the process may have {allowed}",
        help=f"`ulimit -v unlimited`, or `ulimit -v {needed >> 10}`, gives this shell more",
    )
