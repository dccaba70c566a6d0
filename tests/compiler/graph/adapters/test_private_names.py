"""The names of TensorFlow and Keras that are not public are still there, and only the adapters use them."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import keras
import tensorflow as tf

from compiler.graph.adapters import keras_private
from tests.folders import ROOT

ADAPTERS = ROOT / "compiler" / "graph" / "adapters"
PRIVATE_MODULES = ("tensorflow.python", "tensorflow.core", "tensorflow.compiler", "keras.src")

IMPORTED = {
    "keras.src.backend.common.global_state": {"get_global_attribute", "set_global_attribute"},
    "keras.src.backend.common.masking": {"get_keras_mask", "set_keras_mask"},
    "keras.src.layers.layer": {"CallSpec"},
    "keras.src.layers.merging.base_merge": {"Merge"},
    "keras.src.losses.loss": {"reduce_weighted_values", "squeeze_or_expand_to_same_rank"},
    "keras.src.models.functional": {"Functional"},
    "keras.src.utils": {"file_utils"},
    "tensorflow.core.framework.variable_pb2": {"VariableDef"},
    "tensorflow.core.protobuf.config_pb2": {"CallableOptions"},
    "tensorflow.python.client.pywrap_tf_session": {
        "TF_DeleteBuffer",
        "TF_GraphImportGraphDefWithResults",
        "TF_ImportGraphDefOptionsSetPrefix",
        "TF_ImportGraphDefOptionsSetUniquifyNames",
        "TF_ImportGraphDefOptionsSetValidateColocationConstraints",
        "TF_NewBufferFromString",
    },
    "tensorflow.python.client.timeline": {"Timeline"},
    "tensorflow.python.eager.context": {"context"},
    "tensorflow.python.framework.c_api_util": {
        "ScopedTFImportGraphDefOptions",
        "ScopedTFImportGraphDefResults",
    },
    "tensorflow.python.framework.config": {"is_op_determinism_enabled"},
    "tensorflow.python.framework.function": {"from_library"},
    "tensorflow.python.framework.op_callbacks": {"add_op_callback", "clear_op_callbacks"},
    "tensorflow.python.framework.op_def_registry": {"get"},
    "tensorflow.python.ops.resource_variable_ops": {"ResourceVariable"},
}


def graph_objects() -> dict[str, object]:
    """Return an object of each of TensorFlow's kinds of which a private attribute is used."""
    with tf.Graph().as_default() as graph:
        tensor = tf.numpy_function(float, [1.0], tf.float32)
        dataset = tf.data.Dataset.from_tensors(tensor)
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    of_graph = ("_mutation_lock", "_c_graph", "_names_in_use", "_py_funcs_used_in_graph")
    kinds: dict[str, object] = dict.fromkeys(of_graph, graph)
    kinds |= dict.fromkeys(("_set_device", "_add_control_input", "_from_c_op"), tensor.op)
    kinds["_colocation_code_locations"] = tensor.op
    kinds |= dict.fromkeys(("_do_call", "_make_callable_from_options"), tf.compat.v1.Session(graph=graph))
    return kinds | {"_iterator_resource": iterator, "_variant_tensor": dataset}


def keras_objects() -> dict[str, object]:
    """Return an object of each of Keras's kinds of which a private attribute is used."""
    norm, table = keras.layers.BatchNormalization(), keras.layers.Embedding(2, 3)
    norm.build((None, 4))
    table.build((None, 1))
    kinds: dict[str, object] = dict.fromkeys(
        (
            "_call_context_args",
            "_call_signature",
            "_flatten_layers",
            "_maybe_build",
            "_open_name_scope",
            "_moments",
            "_reduction_axes",
        ),
        norm,
    )
    kinds |= {"_embeddings": table, "_autocast": table._embeddings, "_initializer": norm.gamma}
    kept = keras.layers.Normalization()
    kept.build((None, 4))
    kinds["_build_input_shape"] = kept
    kinds |= dict.fromkeys(("_iterations", "_learning_rate", "_apply_weight_decay"), keras.optimizers.Muon())
    kinds |= dict.fromkeys(("_backend_update_step", "_should_use_adamw"), keras.optimizers.Muon())
    kinds |= dict.fromkeys(("_path", "_value", "_deferred_initialize"), norm.gamma)
    kinds |= {"_keras_history": keras.Input(()), "_inbound_nodes": norm}
    kinds |= dict.fromkeys(("_lookup_layer", "_preprocess"), keras.layers.TextVectorization())
    kinds["_functional"] = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    kinds["_functional"].compile("sgd", "mse")  # type: ignore[attr-defined]
    kinds["_compile_config"] = kinds["_functional"]
    kinds["_fn_kwargs"] = keras.losses.Huber()
    number = keras.Input(())
    kinds["_outputs_struct"] = keras.Model(number, number)
    decaying = keras.optimizers.AdamW()
    decaying.exclude_from_weight_decay(var_names=["bias"])
    kinds |= dict.fromkeys(("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern"), decaying)
    lookup = keras.layers.StringLookup(vocabulary=["a"], mask_token="")
    kinds |= dict.fromkeys(
        ("_default_value", "_frozen_vocab_size", "_mask_key", "_mask_value", "_token_start_index"), lookup
    )
    return kinds | {"_is_default": keras.Layer.build, "_built": keras.metrics.AUC()}


def attributes(path: Path) -> set[str]:
    """Return the private attributes that a module reads, sets or looks up, by name."""
    tree = ast.parse(path.read_text())
    named = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    called = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    texts = [arg.value for each in called for arg in each.args if isinstance(arg, ast.Constant)]
    named |= {text for text in texts if isinstance(text, str)}
    return {each for each in named if each.startswith("_") and not each.startswith("__")}


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each module that a file imports, and the name that it imports from it, or an empty one."""
    for each in ast.walk(ast.parse(path.read_text())):
        if isinstance(each, ast.Import):
            yield from ((alias.name, "") for alias in each.names)
        elif isinstance(each, ast.ImportFrom) and each.module is not None:
            yield from ((each.module, alias.name) for alias in each.names)


def is_private(module: str, name: str) -> bool:
    """Whether an import is of a module that is not public."""
    return any(f"{module}.{name}.".startswith(f"{each}.") for each in PRIVATE_MODULES)


def test_private_names_can_be_imported() -> None:
    """A release without one of the names fails here, and the message says which."""
    gone = [
        f"{module}.{name}"
        for module, names in IMPORTED.items()
        for name in names
        if not hasattr(import_module(module), name)
    ]
    assert gone == []


def test_private_attributes_are_there() -> None:
    """A release without one of the attributes fails here, and the message says which."""
    owners = {**graph_objects(), **keras_objects()}
    assert [name for name, owner in owners.items() if not hasattr(owner, name)] == []


def test_keras_keeps_its_values_under_the_known_names() -> None:
    """The counter of names and the list of uncreated variables are found where they are looked for."""
    keras.layers.Dense(1)
    assert keras_private.get_global_attribute(keras_private.NAMES_GIVEN)["dense"] >= 1
    before = list(keras_private.get_global_attribute(keras_private.UNCREATED_VARIABLES, []))
    with keras.StatelessScope(initialize_variables=False):
        variable = keras.Variable(tf.zeros, (2,))
        found = keras_private.get_global_attribute(keras_private.UNCREATED_VARIABLES)
        assert [each for each in found if each is variable] == [variable]
    keras_private.set_global_attribute(keras_private.UNCREATED_VARIABLES, before)


def test_this_test_names_all_that_the_adapters_use() -> None:
    """Whoever adds a private name adds it to the lists above."""
    used: dict[str, set[str]] = {}
    for path in ADAPTERS.glob("*.py"):
        for module, name in imports(path):
            if is_private(module, name):
                used.setdefault(module, set()).add(name)
    assert used == IMPORTED
    assert attributes(ADAPTERS / "tensorflow_private.py") == graph_objects().keys()
    assert attributes(ADAPTERS / "keras_private.py") == keras_objects().keys()


def test_no_other_module_uses_a_private_name() -> None:
    """Nothing else in the compiler and the runtime imports or reaches into what is not public."""
    strangers = []
    for folder in ("compiler", "tfdeploy"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            if path.parent == ADAPTERS or not any(word in text for word in ("keras", "tensorflow", "SLF001")):
                continue
            if any(is_private(module, name) for module, name in imports(path)) or "SLF001" in text:
                strangers.append(str(path.relative_to(ROOT)))
    assert strangers == []


def test_a_metric_without_its_variables_is_told() -> None:
    """Some have none before their first batch; one that says nothing of it has them all."""
    late, multi, usual = keras.metrics.F1Score(), keras.metrics.AUC(multi_label=True), keras.metrics.Mean()
    assert [keras_private.is_built(each) for each in (late, multi, usual)] == [False, False, True]
    late.update_state([[0.0, 1.0]], [[0.25, 0.75]])
    assert keras_private.is_built(late) is True
