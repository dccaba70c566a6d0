"""The table of what goes together, and the messages that are made from it."""

import pytest

from compiler.compatibility import (
    CONFLICTS,
    MODES,
    Aspect,
    conflicts,
    facts_of,
    keeps_all,
    replication_of,
    variable_rules,
)
from compiler.pipeline import make_plan
from dsl import ir
from dsl.codes import CODES
from dsl.diagnostics import SpecError
from tests.graphs import graph_of
from tests.specs import CLASSES
from tests.support import CLASSIFIER, cloned, marked, refusal_of, spec_of


def spec(place: str = "", layers: str = "", **overrides: str) -> ir.Spec:
    """Return a classifier of two clones with some rules."""
    text = CLASSIFIER.format(clones=2, batch=4, optimizer="SGD(0.1)", layers=layers)
    return spec_of(f"{text}\nplace {{ {place} }}\n" if place else text, **overrides)


def found(broken: ir.Spec) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Return code, message, text pointed at, and texts of the labels of what a plan reports."""
    with pytest.raises(SpecError) as refusal:
        make_plan(broken)
    return [
        (each.code, each.message, marked(each), tuple(label.span.text for label in each.labels))
        for each in refusal.value.diagnostics
    ]


APART = "cannot be combined with"
COPIES, OVER_CLONES = "variables -> replicated", "slots -> sharded(clones)"
PARTS = f"{COPIES}, {OVER_CLONES}"
CUT = "variables -> sharded(cpu[*])"
SOME_CUT = 'variables -> balanced(cpu[*]), variables("logits/*") -> sharded(cpu[*])'
ASYNC = {"update__mode": "async"}
LOCAL = {"update__mode": "local", "update__average_every": "2"}
COPIED = ("TFD520", f"`{COPIES}` {APART} `mode = async`", "replicated", ("async",))
REFUSED: dict[str, tuple[str, dict[str, str], list[tuple[str, str, str, tuple[str, ...]]]]] = {
    "a copy under async": (COPIES, ASYNC, [COPIED]),
    "some copies under async": ('variables -> cpu[0], variables("logits/*") -> replicated', ASYNC, [COPIED]),
    "three things that async has no use for": (
        "",
        {**ASYNC, "update__aggregate": "ring", "update__pack": "4KiB", "update__batch_norm": "mean"},
        [
            ("TFD521", f"`aggregate = ring` {APART} `mode = async`", "ring", ("async",)),
            ("TFD521", f"`pack` {APART} `mode = async`", "4KiB", ("async",)),
            ("TFD524", f"`batch_norm = mean` {APART} `mode = async`", "mean", ("async",)),
        ],
    ),
    "parts of slots without copies": (
        f"variables -> cpu[0], {OVER_CLONES}",
        {},
        [("TFD549", f"`{OVER_CLONES}` needs `{COPIES}`", "sharded(clones)", ("cpu[0]",))],
    ),
    "parts of slots without a rule for variables": (
        OVER_CLONES,
        {},
        [("TFD549", f"`{OVER_CLONES}` needs `{COPIES}`", "sharded(clones)", ())],
    ),
    "parts of slots of copies that go their own ways": (
        PARTS,
        LOCAL,
        [("TFD549", f"`{OVER_CLONES}` {APART} `mode = local`", "sharded(clones)", ("local",))],
    ),
    "parts of slots for which a whole variable is needed": (
        PARTS,
        {"update__optimizer": "Lamb(0.1)"},
        [("TFD548", f"`Lamb` {APART} `{OVER_CLONES}`", "Lamb(0.1)", ("sharded(clones)",))],
    ),
    "parts of slots with whole sums": (
        PARTS,
        {"update__aggregate": "collective"},
        [("TFD549", f"`aggregate = collective` {APART} `{OVER_CLONES}`", "collective", ("sharded(clones)",))],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_told_at_both_places(case: str) -> None:
    """Each conflict gives a diagnostic, all at once."""
    place, overrides, wanted = REFUSED[case]
    assert found(spec(place, **overrides)) == wanted


@pytest.mark.parametrize(
    ("place", "overrides", "marked", "labelled"),
    [
        ("", {**ASYNC, "train__deterministic": "true"}, "true", ("async",)),
        ("", {"update__replication": "between_graph"}, "between_graph", ("devices",)),
        ("", {**LOCAL, "update__staleness": "0"}, "0", ("local",)),
        (CUT, {"update__optimizer": "Lamb(0.1)"}, "Lamb(0.1)", ("sharded(cpu[*])",)),
        (SOME_CUT, {"update__optimizer": "Adafactor(0.1)"}, "Adafactor(0.1)", ("sharded(cpu[*])",)),
    ],
)
def test_a_conflict_is_marked_where_its_choices_are_written(
    place: str, overrides: dict[str, str], marked: str, labelled: tuple[str, ...]
) -> None:
    """Of several rules it is one that takes part."""
    ((_, _, text, labels),) = found(spec(place, **overrides))
    assert (text, labels) == (marked, labelled)


def test_a_rule_that_a_later_one_beats_is_no_conflict() -> None:
    """Replicated variables are none where the next rule takes all variables elsewhere."""
    beaten = spec("variables -> replicated, variables -> cpu[0]", update__mode="async")
    assert [rule.span.text for rule in variable_rules(beaten) if rule.span] == ["variables -> cpu[0]"]
    assert make_plan(beaten).update.mode == "async"


def test_rows_of_a_table_are_seen_once_the_model_is_traced() -> None:
    """A collective is refused for an embedding, whose gradient is rows; the message names the table."""
    text = cloned("""
  word = input(int32, [])
  digit = input(int32, [])
  logits = word -> Embedding(9, 4, name = "table") -> Dense(3, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
""")
    only = refusal_of(lambda: graph_of(spec_of(text, update__aggregate="collective")))
    assert (only.code, only.message) == (
        "TFD523",
        "`aggregate = collective` cannot sum the rows of a table",
    )
    assert only.notes[1] == "rows are looked up in `table/embeddings`"
    assert marked(only) == "collective"


def test_a_collective_is_refused_on_a_cluster() -> None:
    """Servers do not get over a step that fails in one, and one that misses a task has no end."""
    cluster = """
devices {
  job "ps" { tasks = 1 }
  job "worker" { tasks = 2 }
}
"""
    text = CLASSIFIER.format(clones=2, batch=4, optimizer="SGD(0.1)", layers="")
    start, end = text.index("devices {"), text.index("}", text.index("devices {")) + 1
    text = text[:start] + cluster + text[end:] + "place { variables -> replicated }"
    assert make_plan(spec_of(text, update__aggregate="ring")).update.aggregate.name == "ring"
    only = refusal_of(lambda: make_plan(spec_of(text, update__aggregate="collective")))
    assert (only.code, only.message) == (
        "TFD774",
        "`aggregate = collective` cannot be combined with the tasks of a cluster",
    )
    assert marked(only) == "collective"
    assert only.help.startswith("use `aggregate = ring`")


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_goes_with_nothing_else_said(mode: str) -> None:
    """Switching the mode of a plain spec needs one line, and for local a second."""
    more = {"update__average_every": "2"} if mode == "local" else {}
    assert not list(conflicts(facts_of(spec(update__mode=mode, **more))))


def test_every_row_can_be_reached_and_says_what_to_write() -> None:
    """Each row of the table has a code, and holds for facts that are just its own."""
    for row in CONFLICTS:
        facts = {aspect: frozenset[str]() for aspect, _ in row.when}
        for aspect, values in row.when:
            facts[aspect] |= frozenset(values)
        assert row.code in CODES
        assert row in list(conflicts(facts))
        assert row.reason
        assert row.nearest
        assert "{" not in row.title(facts)


def test_slots_over_clones_go_with_variables_of_which_some_are_replicated() -> None:
    """Which variables have copies is only known with their names, so that a plan is made."""
    mixed = spec('variables -> cpu[0], variables("a*") -> replicated, slots("a*") -> sharded(clones)')
    assert make_plan(mixed).spec == mixed
    beaten = spec("slots -> sharded(clones), slots -> cpu[1]")
    assert make_plan(beaten).spec == beaten


PLAIN = {
    "mode": "sync",
    "aggregate": "add_n",
    "pack": "off",
    "compress": "none",
    "schedule": "off",
    "clones": "one device each",
    "variables": "shared",
    "slots": "whole",
    "optimizer": "SGD",
    "precision": "float32",
    "batch_norm": "first",
    "accumulate": "off",
    "staleness": "off",
    "average_every": "off",
    "average_slots": "off",
    "replication": "in_graph",
    "backup": "off",
    "deterministic": "off",
    "machines": "one",
}
"""What a spec of one machine says if it chooses nothing."""


@pytest.mark.parametrize(
    ("aspect", "value", "place", "overrides"),
    [
        ("pack", "on", "", {"update__pack": "4KiB"}),
        ("compress", "power_sgd", "", {"update__compress": "power_sgd(rank = 2)"}),
        ("variables", "spread", "variables -> balanced(cpu[*])", {}),
        ("variables", "spread", "variables -> round_robin(cpu[*])", {}),
        ("variables", "shared", "variables -> cpu[*]", {}),
        ("variables", "sharded", "variables -> sharded(cpu[*])", {}),
        ("variables", "replicated", "variables -> replicated", {}),
        ("variables", "sharded", "variables -> balanced(cpu[*]), variables -> sharded(cpu[*])", {}),
        ("accumulate", "off", "", {"update__accumulate": "1"}),
        ("accumulate", "on", "", {"update__accumulate": "2"}),
        ("staleness", "zero", "", {"update__staleness": "0"}),
        ("staleness", "on", "", {"update__staleness": "1"}),
        ("average_every", "on", "", {"update__average_every": "2"}),
        ("average_slots", "on", "", {"update__average_slots": "true"}),
        ("backup", "off", "", {"update__backup": "0"}),
        ("backup", "on", "", {"update__backup": "1"}),
        ("deterministic", "on", "", {"train__deterministic": "true"}),
        ("replication", "between_graph", "", {"update__replication": "between_graph"}),
        ("optimizer", None, "", {"update__freeze": '["logits/*"]'}),
    ],
)
def test_what_a_spec_chooses(
    aspect: Aspect, value: str | None, place: str, overrides: dict[str, str]
) -> None:
    """One choice changes one aspect; an optimizer that updates some weights alone is known with these."""
    wanted = {key: {each} for key, each in PLAIN.items()} | {aspect: {value} if value is not None else set()}
    assert facts_of(spec(place, **overrides)) == wanted


@pytest.mark.parametrize(
    ("devices", "mode", "replication", "graphs"),
    [
        ("cpu = 2", "async", None, "in_graph"),
        ('job "worker" { tasks = 2 }', "sync", None, "between_graph"),
        ('job "ps" { tasks = 1 }\n job "worker" { tasks = 2 }', "sync", None, "in_graph"),
        ('job "worker" { tasks = 2 }', "local", None, "in_graph"),
        ('job "worker" { tasks = 2 }', "async", None, "between_graph"),
        ('job "worker" { tasks = 2 }', "async", "in_graph", "in_graph"),
        ('job "worker" { tasks = 2 }', "sync", "between_graph", "between_graph"),
    ],
)
def test_who_has_a_graph(devices: str, mode: str, replication: str | None, graphs: str) -> None:
    """Workers have graphs of their own if they update alone or are alone, or if the spec says so."""
    chosen = "" if replication is None else f", replication = {replication}"
    averaged = ", average_every = 2" if mode == "local" else ""
    update = f"SGD(0.1), mode = {mode}{averaged}{chosen}"
    text = CLASSIFIER.format(clones=2, batch=4, optimizer=update, layers="")
    found = facts_of(spec_of(text.replace("devices { cpu = 2 }", f"devices {{\n {devices}\n}}")))
    assert found["replication"] == {graphs}
    assert found["machines"] == {"one" if devices == "cpu = 2" else "several"}


def test_gradients_are_known_once_the_model_is_traced() -> None:
    """Weights that are no tables have dense gradients, also beside tables."""
    plain = spec()
    assert "gradients" not in facts_of(plain)
    assert facts_of(plain, sparse=False)["gradients"] == {"dense"}
    assert facts_of(plain, sparse=True)["gradients"] == {"dense", "sparse"}


WORKERS = 'job "worker" { tasks = 2 }'


@pytest.mark.parametrize(
    ("devices", "more", "wanted"),
    [
        (WORKERS, "", True),
        (WORKERS, "place { clones -> worker[*].cpu[0] }", True),
        ('job "worker" { tasks = 1 }', "", False),
        (f'job "ps" {{ tasks = 1 }}\n {WORKERS}', "", False),
        (WORKERS, "place { variables -> worker[0].cpu[0] }", False),
        (WORKERS, "place { variables -> replicated }", False),
        (WORKERS, "update { optimizer = SGD(0.1), replication = in_graph }", False),
        (WORKERS, "update { optimizer = SGD(0.1), aggregate = collective }", False),
        (WORKERS, "update { optimizer = SGD(0.1), batch_norm = synchronized }", True),
        (WORKERS, "update { optimizer = SGD(0.1), mode = local, average_every = 2 }", False),
    ],
)
def test_workers_alone_have_all_weights_by_default(devices: str, more: str, wanted: bool) -> None:
    """Unless something is said of variables, or needs one graph; each then has copies on its own devices."""
    update = "" if "update" in more else "update { optimizer = SGD(0.1) }"
    read = spec_of(f"{CLASSES}devices {{\n{devices}\n}}\n{more}\n{update}\n")
    assert keeps_all(read) is wanted
    if wanted:
        assert replication_of(read) == "between_graph"
        assert facts_of(read)["variables"] == {"replicated"}
