"""The table of all diagnostic codes, sorted by number. A code is never reused.

The number and the name of a code are written only here; `tfdeploy/pages/TFDxxx.md` explains the code.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

Stage: TypeAlias = Literal["check", "plan", "run", "tool"]


@frozen
class Code:
    """One kind of diagnostic."""

    code: str  # the number, such as `TFD101`
    name: str  # the name in kebab case
    title: str  # one sentence that says what is wrong
    # The first stage that can report it, or `tool` if it is no fault of a spec and its data.
    stage: Stage = "check"


_ROWS = (
    # TFD1xx: reading. TFD19x: the file itself cannot be read, which ends a command with exit code 2.
    Code("TFD101", "unexpected-character", "a character that has no meaning in a spec"),
    Code("TFD102", "unexpected-token", "something that cannot stand where it stands"),
    Code("TFD103", "malformed-string", "a string without its quotes"),
    Code("TFD104", "unclosed-bracket", "a bracket that is never closed"),
    Code("TFD105", "unmatched-bracket", "a closing bracket that closes nothing"),
    Code("TFD106", "malformed-number", "a number that is not written as one"),
    Code("TFD107", "unknown-escape", "a backslash in a string before a character that needs none"),
    Code("TFD108", "nested-too-deeply", "brackets within brackets beyond all measure"),
    Code("TFD109", "name-too-long", "a name beyond all measure"),
    Code("TFD110", "empty-spec", "a file with nothing in it"),
    Code("TFD111", "included-too-deeply", "a file included by a file included by a file, beyond all measure"),
    Code("TFD114", "too-many-words", "more words and signs than are read"),
    Code("TFD190", "missing-file", "a file is not there"),
    Code("TFD191", "unreadable-file", "a file cannot be read"),
    Code("TFD192", "not-utf8", "a file is not UTF-8 text"),
    Code("TFD193", "file-too-large", "a file is larger than a spec may be"),
    Code("TFD194", "not-a-spec", "an included file that is no spec"),
    Code("TFD195", "name-not-utf8", "the name of a file that is not UTF-8, as TensorFlow needs it", "tool"),
    Code("TFD199", "file-system-error", "the operating system refused to read or write a file", "tool"),
    # TFD2xx: names and shape of the spec.
    Code("TFD201", "unknown-block", "a block that the language does not have"),
    Code("TFD202", "unknown-attribute", "an attribute that its block does not have"),
    Code("TFD203", "duplicate-definition", "one thing defined twice"),
    Code("TFD204", "missing-attribute", "an attribute or block that cannot be left out"),
    Code("TFD205", "misplaced-item", "an item of a kind that its block does not take"),
    Code("TFD206", "missing-version", "a spec that does not say which version of the language it is in"),
    Code("TFD207", "unknown-version", "a version of the language that this tool does not know"),
    Code("TFD208", "block-name", "a block whose name is missing, or that has none"),
    Code("TFD209", "conflicting-attributes", "attributes that exclude each other"),
    Code("TFD210", "include-cycle", "files that include each other"),
    Code("TFD211", "include-outside", "an included file outside the directory of the spec"),
    Code("TFD212", "unknown-path", "a `--set` that names nothing in the spec"),
    Code("TFD213", "python-not-allowed", "`python(...)` without `--allow-python`"),
    Code("TFD214", "reserved-name", "a name that means something else already"),
    # TFD3xx: types and units.
    Code("TFD301", "wrong-type", "a value of another type than its place takes"),
    Code("TFD302", "missing-unit", "a quantity without its unit"),
    Code("TFD303", "wrong-unit", "a unit that does not exist or does not fit"),
    Code("TFD304", "invalid-choice", "a word that is not among those allowed"),
    Code("TFD305", "out-of-range", "a number beyond what its place takes"),
    Code("TFD306", "invalid-arithmetic", "arithmetic that has no result"),
    Code("TFD308", "address-for-path", "an address such as `gs://bucket/x` in place of a path"),
    Code("TFD316", "random-evaluation", "examples changed at random that are not for training"),
    Code("TFD317", "random-before-cache", "random changes that would be the same in every pass"),
    # TFD36x: what layers know beside their weights.
    Code("TFD366", "no-layer-state", "a layer without the words or boundaries that it needs"),
    Code("TFD367", "layer-state-twice", "a layer that is to learn what it is given"),
    Code("TFD368", "no-split-to-adapt", "a layer that learns from a split that there is not"),
    Code("TFD369", "cannot-adapt-here", "a layer that learns from data at a place where it cannot"),
    # TFD4xx: references.
    Code("TFD401", "unknown-name", "a name that is not defined"),
    Code("TFD402", "no-such-device", "a device that is not among the declared ones"),
    Code("TFD403", "cycle", "definitions that need each other"),
    Code("TFD404", "unknown-function", "a layer, source or function that there is not"),
    Code("TFD405", "unknown-argument", "an argument that a call does not take"),
    Code("TFD406", "missing-argument", "an argument that a call cannot do without"),
    Code("TFD407", "repeated-argument", "an argument given twice"),
    Code("TFD408", "wrong-reference", "a name of something else than its place takes"),
    Code("TFD409", "unfitting-data", "data that lacks a tensor which the model reads"),
    Code("TFD410", "labels-as-numbers", "whole-number labels for a loss or metric of one-hot targets"),
    Code("TFD411", "shared-block", "a shared layer that is made of several"),
    Code("TFD412", "one-device-only", "several devices for what is in one place"),
    # TFD5xx: the plan.
    Code("TFD501", "uneven-batch", "a global batch that the clones cannot share evenly"),
    Code("TFD502", "batch-list-length", "a list of batches that does not fit the number of clones"),
    Code("TFD503", "no-device", "a placement that names no device", "plan"),
    Code("TFD504", "device-not-present", "a declared device that the machine does not have", "run"),
    Code("TFD506", "shape-mismatch", "a step that cannot take the shapes that reach it", "plan"),
    Code("TFD507", "layer-cannot-be-made", "arguments that Keras does not take", "plan"),
    Code("TFD508", "no-optimizer", "training without an optimizer", "plan"),
    Code("TFD509", "nothing-to-train-on", "training without data or without a length", "plan"),
    Code("TFD510", "no-gradient", "a loss that depends on no weight", "plan"),
    Code("TFD511", "rule-matches-nothing", "a placement rule whose glob matches nothing", "plan"),
    Code("TFD512", "stray-op", "an op that sits where no rule put it", "plan"),
    Code("TFD513", "group-too-large", "a group of more devices than there are"),
    Code("TFD514", "no-group-member", "a device that the groups of the clones do not have"),
    Code("TFD515", "ops-elsewhere", "ops that TensorFlow put on another device than was requested", "run"),
    Code("TFD516", "without-effect", "an attribute that nothing uses"),
    Code("TFD517", "graph-too-large", "a graph that TensorFlow cannot hold", "plan"),
    Code("TFD518", "model-too-large", "a model that stands for more layers than are made"),
    Code("TFD519", "no-pipeline", "what the devices of a clone's group cannot do as a pipeline"),
    Code("TFD520", "mode-and-placement", "a placement of variables that the update mode cannot use"),
    Code("TFD521", "mode-and-aggregation", "an aggregation, although no gradients are summed"),
    Code("TFD522", "meaningless-attribute", "an attribute that belongs to another update mode"),
    Code("TFD523", "aggregation-and-gradients", "an aggregation that cannot sum rows of a table", "plan"),
    Code("TFD524", "mode-and-numerics", "numerics that need all clones at one step"),
    Code("TFD525", "no-staleness", "a bound on staleness that lets no clone begin"),
    Code("TFD526", "no-workers", "a graph for each worker, although there are no workers"),
    Code("TFD527", "random-numbers", "a model that `verify` refuses for its random numbers", "plan"),
    Code("TFD528", "needs-one-graph", "what only one graph of all workers can do"),
    Code(
        "TFD529",
        "recompute-matches-nothing",
        "a glob of layers to compute again that matches nothing",
        "plan",
    ),
    Code("TFD530", "limit-not-reached", "a limit of memory that recomputation does not reach", "plan"),
    # TFD53x: what `expect` asks for.
    Code("TFD531", "uneven-variables", "variables spread less evenly than expected", "plan"),
    Code("TFD532", "too-much-memory", "a device that needs more memory than expected", "plan"),
    Code("TFD533", "too-much-traffic", "more sent between devices than expected", "plan"),
    Code("TFD534", "unexpected-ops", "another number of ops on devices than expected", "plan"),
    Code("TFD535", "too-little-memory", "a device that needs more memory than the spec gives it", "plan"),
    Code("TFD536", "slow-step", "a step that takes longer than expected", "plan"),
    Code("TFD537", "idle-device", "a device that is less busy than expected", "plan"),
    Code("TFD538", "time-unknown", "a condition on time, although nothing was measured", "plan"),
    # TFD54x: workers with graphs of their own.
    Code("TFD541", "worker-without-clones", "a worker that has no clone to train"),
    Code("TFD542", "clones-on-server", "a clone on a task that only keeps variables"),
    Code("TFD543", "too-many-backups", "a step that would wait for no worker"),
    Code("TFD544", "uneven-workers", "backup workers with batches of another size"),
    Code("TFD545", "device-of-another-worker", "ops of a worker's graph on another worker"),
    Code("TFD546", "too-large-for-memory", "variables or tensors that the memory cannot hold", "plan"),
    Code("TFD547", "no-such-axis", "a variable without the axis along which it is to be cut", "plan"),
    Code("TFD548", "needs-the-whole", "a variable in pieces that something needs whole", "plan"),
    Code("TFD549", "slots-over-clones", "slots cut over clones that cannot each update a part"),
    # TFD55x: optimizers of weights, and what the steps of a model give.
    Code("TFD550", "weights-without-optimizer", "weights that no rule of `optimizer` takes", "plan"),
    Code("TFD551", "optimizer-without-weights", "a rule of `optimizer` for which no weight is left", "plan"),
    Code("TFD552", "unusable-optimizer", "a Python function that gives no optimizer to train with", "plan"),
    Code("TFD553", "unusable-index", "an index by tensors that has no meaning", "plan"),
    Code("TFD555", "several-outputs", "a step with another number of outputs than names", "plan"),
    # TFD56x: tensors as values.
    Code("TFD560", "constant-into-layer", "a layer that works on a tensor without examples"),
    Code("TFD561", "examples-mixed", "an operation that mixes the examples of a batch"),
    Code("TFD562", "call-arguments", "arguments in second brackets of what takes none"),
    Code("TFD563", "cannot-be-saved", "a model that can be trained, but not be saved and loaded"),
    Code(
        "TFD564",
        "undeclared-state",
        "a state of a layer of yours that does not say how clones join it",
        "plan",
    ),
    # TFD57x: frozen weights, parts that start from files; losses, metrics and outputs.
    Code("TFD570", "freeze-matches-nothing", "a glob of frozen weights that matches nothing", "plan"),
    Code("TFD571", "everything-frozen", "a model of which nothing is trained", "plan"),
    Code("TFD572", "part-matches-nothing", "a file of weights for a part that there is not", "plan"),
    Code("TFD575", "constant-weights", "weights of examples that depend on no input"),
    Code("TFD576", "no-class-weights", "an empty list of weights of classes"),
    Code("TFD577", "outputs-alike", "outputs whose columns in a table could have the same name"),
    Code("TFD578", "no-outputs", "an empty list of outputs"),
    Code("TFD579", "constant-output", "an output that depends on no input"),
    # TFD58x: what layers learn before training.
    Code("TFD580", "unreadable-vocabulary", "a file of words that cannot be read", "plan"),
    Code("TFD581", "nothing-learnt", "examples from which a layer cannot learn", "plan"),
    Code("TFD582", "other-layer-state", "a record of what other layers have learnt", "run"),
    Code("TFD583", "weights-before-adapt", "a layer that learns from what layers with weights make", "plan"),
    Code("TFD584", "learnt-in-many-graphs", "a layer that learns while workers have own graphs", "run"),
    # TFD585 to TFD587: objects of the model that Python code of the user's makes.
    Code("TFD585", "python-object", "a function of `python(...)` that does not make what is needed", "plan"),
    Code("TFD586", "python-raised", "Python code of the model that raised an exception", "plan"),
    Code("TFD587", "state-not-summable", "a metric whose states on the clones cannot be added up", "plan"),
    # TFD59x: terms of the loss that are tensors.
    Code("TFD590", "several-numbers-of-loss", "a term of the loss with more than one number for an example"),
    Code("TFD591", "constant-loss", "a term of the loss that depends on no input"),
    Code("TFD592", "no-prediction", "a model without a Keras loss that does not say what it predicts"),
    # TFD59x: layers that do not do the same in training and in evaluation.
    Code("TFD593", "shape-of-the-pass", "a step with another shape in evaluation than in training", "plan"),
    Code("TFD594", "not-in-a-clone", "a setting that cannot work in the graph of a clone"),
    # TFD6xx: lint.
    Code("TFD601", "unused-binding", "a binding that nothing uses"),
    Code("TFD602", "unused-constant", "a constant that nothing uses"),
    Code("TFD603", "unused-device", "a device that nothing is placed on"),
    Code("TFD604", "ineffective-rule", "a placement rule that never decides"),
    Code("TFD605", "unused-layer", "a layer block that nothing uses"),
    Code("TFD606", "unknown-lint", "a comment that allows a lint which there is not"),
    Code("TFD607", "uneven-clones", "devices with more clones than others"),
    Code("TFD608", "device-without-clone", "devices given to the clones that get none"),
    # TFD7xx: running. TFD70x and TFD71x: data, with file, record and field; TFD72x: a spec and its data.
    Code("TFD701", "data-missing", "a data file or folder is not there", "run"),
    Code("TFD702", "data-unreadable", "a data file cannot be opened or is of another format", "run"),
    Code("TFD703", "data-empty", "data without a single example", "run"),
    Code("TFD704", "field-missing", "a column, array or feature that the data lacks", "run"),
    Code("TFD705", "row-length", "a row with too few or too many cells", "run"),
    Code("TFD706", "not-a-number", "a cell that is not a number", "run"),
    Code("TFD707", "value-out-of-range", "a value that its dtype or the classes do not allow", "run"),
    Code("TFD708", "quoting", "quotes that do not pair up", "run"),
    Code("TFD709", "bad-header", "a first row that cannot serve as header", "run"),
    Code("TFD710", "data-damaged", "a file that was cut off or altered", "run"),
    Code("TFD711", "record-shape", "a record whose size differs from what is wanted", "run"),
    Code("TFD712", "record-kind", "an array or feature of a type that cannot be used", "run"),
    Code("TFD713", "unreadable-image", "an image that cannot be decoded", "run"),
    Code("TFD714", "python-data", "a Python function that does not give examples", "run"),
    Code("TFD715", "unreadable-record", "a record that TensorFlow refuses", "run"),
    Code("TFD716", "not-used", "weights in a checkpoint for which the model has no place", "run"),
    Code("TFD717", "data-not-finite", "a number in the data that is infinite or not a number", "run"),
    Code("TFD718", "nothing-counted", "evaluations that have no value to compare", "run"),
    Code("TFD720", "unknown-tensor", "a transform of a tensor that the examples lack", "run"),
    Code("TFD721", "input-without-data", "an input of the model for which there is no data", "run"),
    Code("TFD722", "data-does-not-fit", "data of another dtype or shape than the model's input", "run"),
    Code("TFD723", "transform-does-not-apply", "a transform that cannot be applied to its tensor", "run"),
    Code("TFD724", "bad-data-argument", "an argument of a source or transform without a meaning", "run"),
    # TFD730 to TFD799: the run itself.
    Code("TFD730", "not-finite", "a loss or weights that are infinite or not a number", "run"),
    Code("TFD731", "directory-in-use", "a run directory that another run holds", "run"),
    Code("TFD732", "directory-unusable", "a run directory that cannot be made", "run"),
    Code("TFD733", "cannot-write", "a file of the run that cannot be written", "run"),
    Code("TFD734", "checkpoint-damaged", "a checkpoint that cannot be read", "run"),
    Code("TFD735", "no-checkpoint", "a checkpoint that is needed and not there", "run"),
    Code("TFD736", "checkpoint-does-not-fit", "a checkpoint of another model", "run"),
    Code("TFD737", "starts-anew", "slots, averages or copies that a checkpoint lacks", "run"),
    Code("TFD738", "step-failed", "an op that TensorFlow refused to run", "run"),
    Code("TFD739", "too-few-examples", "epochs that do not fill one step", "run"),
    Code("TFD740", "size-unknown", "epochs over data of unknown size", "run"),
    Code("TFD741", "weights-do-not-fit", "weights to start from that are of another model", "run"),
    Code("TFD742", "weights-unreadable", "weights to start from that cannot be read", "run"),
    Code("TFD743", "history-mended", "broken lines in the history of a run", "run"),
    Code("TFD744", "split-missing", "a split that a command asks for and the spec does not have", "run"),
    Code("TFD745", "nothing-to-plot", "runs without a history, or without the score to draw", "run"),
    Code("TFD746", "record-damaged", "a file of a run, beside its checkpoints, that cannot be used", "run"),
    Code("TFD747", "directory-gone", "a run directory that went away during the run", "run"),
    Code("TFD748", "workers-cannot-change", "what does not go with workers that come and go"),
    Code("TFD749", "cannot-scale", "a number of tasks that a cluster that runs cannot have", "run"),
    Code("TFD750", "directory-holds-spec", "a run directory in which the spec itself is", "run"),
    Code("TFD751", "foreign-directory", "a folder of something else as run directory", "run"),
    Code("TFD752", "output-is-read", "an output that would overwrite what is read", "plan"),
    Code("TFD753", "foreign-output", "an output that would replace somebody else's file", "plan"),
    Code("TFD754", "weights-not-fetched", "weights of a Keras model that cannot be fetched", "run"),
    Code("TFD755", "bad-profile", "a file that is no profile of a machine", "plan"),
    Code("TFD756", "link-not-measured", "processes between which `calibrate` cannot send tensors", "run"),
    Code("TFD757", "bad-trace", "a file that is no trace of a run", "plan"),
    Code("TFD758", "bad-map", "a file that is no placement map", "plan"),
    Code("TFD759", "nothing-named", "a name that no op and no variable has", "plan"),
    # TFD760 to TFD774: the tasks of a cluster.
    Code("TFD760", "bad-tf-config", "a TF_CONFIG that cannot be used", "run"),
    Code(
        "TFD761", "no-such-task", "a task that the cluster lacks, or that nothing tells the place of", "run"
    ),
    Code("TFD762", "cannot-listen", "an address at which a server cannot listen", "run"),
    Code("TFD763", "task-missing", "a task of the cluster that does not answer", "run"),
    Code("TFD764", "wrong-task", "something else than the task that should answer", "run"),
    Code("TFD765", "other-spec", "tasks of one cluster with different specs", "run"),
    Code("TFD766", "other-version", "tasks of one cluster with different versions", "run"),
    Code("TFD767", "open-to-network", "a server without authentication that other machines can reach", "run"),
    Code("TFD768", "task-failed", "a started task whose end ends the run", "run"),
    Code("TFD769", "bad-address", "an address that is none, or that two tasks have"),
    Code(
        "TFD770",
        "no-secret",
        "a secret of the run that cannot be read, or that others can read",
        "run",
    ),
    Code("TFD771", "other-secret", "tasks of one cluster that do not share a secret", "run"),
    Code("TFD772", "disbelieved", "a request to end from somebody without the secret of the run", "run"),
    Code("TFD773", "no-progress", "a run of which nothing comes for a while", "run"),
    Code("TFD774", "collective-on-cluster", "TensorFlow's all-reduce between processes"),
    # TFD775 to TFD779: several runs, and what follows them.
    Code("TFD775", "no-runs", "folders without runs", "run"),
    Code("TFD776", "other-sweep", "a folder with the sweep of another spec", "run"),
    Code("TFD777", "parts-too-small", "more runs at once than the machine can be parted for", "run"),
    Code("TFD778", "extra-missing", "a package that only an extra of tfdeploy installs", "run"),
    # TFD780 to TFD789: data and manifests of a cluster.
    Code("TFD781", "in-process-source", "a source that needs Python, although servers read the data", "run"),
    Code("TFD782", "not-delivered", "a tracker that has not got all of a run", "run"),
    Code("TFD785", "nothing-to-deploy", "a spec without jobs, which has no tasks for manifests", "plan"),
    Code("TFD786", "no-such-replica", "a job that a TFJob has no replicas for", "plan"),
    Code("TFD787", "no-manifest-name", "a name that Kubernetes does not take", "plan"),
    Code("TFD788", "cannot-meet", "processes that do not find out which tasks of a cluster they are", "run"),
    # TFD790 to TFD795: specs from Keras models and from examples.
    Code("TFD790", "bad-model", "a Keras model that cannot be read", "run"),
    Code("TFD791", "unwritable-model", "a Keras model that the language cannot say", "run"),
    Code("TFD792", "unlike-data", "examples from which no spec can be written", "run"),
    # TFD796 to TFD798: what the operating system does not give to a command.
    Code("TFD796", "output-lost", "standard output that takes no more words", "tool"),
    Code("TFD797", "out-of-memory", "a process that may not have as much memory as it needs", "tool"),
    Code("TFD798", "no-current-folder", "a current folder that was removed", "tool"),
    # Of the Python interface alone.
    Code("TFD799", "eager-execution-off", "a process in which TensorFlow is one of version 1", "tool"),
    # TFD9xx: the tool's own fault.
    Code("TFD901", "internal-fault", "a fault of tfdeploy itself", "tool"),
)

CODES: dict[str, Code] = {row.code: row for row in _ROWS}


def name_of(code: str) -> str:
    """Return the kebab-case name of a code."""
    return CODES[code].name


def is_file_fault(code: str) -> bool:
    """Whether a code means that a file could not be read, so that the command exits with 2 instead of 1."""
    return code.startswith("TFD19")
