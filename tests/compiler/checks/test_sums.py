"""Rules that decide nothing are warned of: without them, every op is where it is."""

import pytest

from compiler.checks import check_spec
from compiler.graph.compiled import CompiledGraph
from tests.graphs import graph_of
from tests.support import marked, spec_of

SPEC = """
tfdeploy = 1

model "m" {{
  x = input(int32, [3])
  label = input(int32, [])
  y = x -> Embedding(9, 4, name = "table", trainable = {table}) -> Flatten() -> Dense(2, name = "fc")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}}
devices {{
  {devices}
}}
clones {{ batch = 2 }}
place {{
  {place}
}}
update {{
  {update}
}}
data {{ train = synthetic(16, x = feature(int32, [3], classes = 9), label = feature(int32, classes = 2)) }}
train {{
  steps = 1
  seed = 2
  summaries = {summaries}
}}
"""
CPUS = "cpu = 3"
CLUSTER = 'job "ps" { tasks = 2 }\n  job "worker" {\n    tasks = 2\n    gpu = 2\n  }'
COPIED = "clones -> cpu[0..1]\n  variables -> replicated"
ONE = "clones -> cpu[0..1]\n  variables -> cpu[0]"
ON_SERVERS = "clones -> worker[*].gpu[*]\n  variables -> ps[0]"

COPIED_BY_GLOBS = """clones -> cpu[0..1]
  variables("t*") -> replicated
  variables("f*") -> replicated"""
CUT = ONE.replace("cpu[0]", "sharded(cpu[0..1])")
TOGETHER = "mode = async\n  replication = in_graph"
MOVED = "updates -> cpu[2]"

STILL = {
    "copies": (CPUS, COPIED, "", True, MOVED),
    "copies by a glob": (CPUS, COPIED.replace("variables", 'variables("*")'), "", True, MOVED),
    "copies in a ring": (CPUS, COPIED, "aggregate = ring", True, MOVED),
    "parts of copies": (CPUS, f"{COPIED}\n  slots -> sharded(clones)", "", True, MOVED),
    "workers, async": (CLUSTER, ON_SERVERS, "mode = async", True, "updates -> ps[1]"),
}
LATER = {
    "copies by several globs": (CPUS, COPIED_BY_GLOBS, "", True, MOVED),
    "copies, local": (CPUS, COPIED, "mode = local\n  average_every = 2", False, MOVED),
    "no slots": (CPUS, ONE, "", True, "slots -> cpu[2]"),
    "no slots of some": (CPUS, ONE, "", True, 'slots("fc/*") -> cpu[2]'),
    "no slots, async": (CPUS, ONE, "mode = async", True, "slots -> cpu[2]"),
    "no slots in pieces": (CPUS, CUT, "", True, "slots -> cpu[2]"),
    "no slots on servers": (CLUSTER, ON_SERVERS, "replication = between_graph", True, "slots -> ps[1]"),
    "no summaries": (CPUS, ONE, "", True, "summaries -> cpu[2]"),
    "clones, async": (CPUS, ONE, "mode = async", False, MOVED),
    "clones, local": (CPUS, ONE, "mode = local\n  average_every = 2", False, MOVED),
    "clones of a cluster, async": (CLUSTER, ON_SERVERS, TOGETHER, False, "updates -> ps[1]"),
}
MOVING = {
    "slots": (CPUS, ONE, "optimizer = Adam()", True, "slots -> cpu[2]"),
    "an average": (CPUS, ONE, "ema = 0.9", True, "slots -> cpu[2]"),
    "parts of slots": (CPUS, COPIED, "optimizer = Adam()", True, "slots -> sharded(clones)"),
    "parts without slots": (CPUS, COPIED, "", True, "slots -> sharded(clones)"),
    "inputs": (CPUS, ONE, "", True, "inputs -> cpu[2]"),
    "evaluation": (CPUS, ONE, "", True, "evaluation -> cpu[2]"),
    "ops": (CPUS, ONE, "", True, 'ops("fc/*") -> cpu[2]'),
    "one place": (CPUS, ONE, "", False, MOVED),
    "copies of some": (CPUS, f'{ONE}\n  variables("fc/*") -> replicated', "", True, MOVED),
    "copies but for some": (CPUS, f'{COPIED}\n  variables("fc/*") -> cpu[0]', "", True, MOVED),
    "workers": (CLUSTER, ON_SERVERS, "replication = between_graph", True, "updates -> ps[1]"),
    "rows of a table, async": (CPUS, ONE, "mode = async", True, MOVED),
}


def text_of(case: tuple[str, str, str, bool, str], *, rule: bool) -> str:
    """Return the text of the spec of a case, with its rule for updates or without it."""
    devices, place, update, table, updates = case
    place = f"{place}\n  {updates}" if rule else place
    update = update if "optimizer" in update else f"optimizer = SGD(0.1)\n  {update}"
    summaries = "none" if updates.startswith("summaries") else "scalars"
    table_words = str(table).lower()
    return SPEC.format(devices=devices, place=place, update=update, table=table_words, summaries=summaries)


def built(case: tuple[str, str, str, bool, str], *, rule: bool) -> CompiledGraph:
    """Return the graph of a case."""
    return graph_of(spec_of(text_of(case, rule=rule)))


def places(compiled: CompiledGraph) -> dict[str, str]:
    """Return the device of every op."""
    return {name: entry.device.ref for name, entry in compiled.ledger.entries.items()}


@pytest.mark.family(every=4)
@pytest.mark.parametrize("case", {**STILL, **LATER}.values(), ids=[*STILL, *LATER])
def test_a_rule_that_moves_nothing_is_warned_of(case: tuple[str, str, str, bool, str]) -> None:
    """Every op is where it is without the rule, and the graph has no other warning."""
    plain, ruled = built(case, rule=False), built(case, rule=True)
    assert places(ruled) == places(plain)
    assert not plain.warnings
    (found,) = ruled.warnings
    assert (found.code, found.is_error) == ("TFD604", False)
    assert marked(found) == case[4]


@pytest.mark.family(every=4)
@pytest.mark.parametrize("case", MOVING.values(), ids=MOVING)
def test_a_rule_that_moves_something_is_not(case: tuple[str, str, str, bool, str]) -> None:
    """Sums of what is not copied, mailboxes, and rows of equal index that a clone sums for itself."""
    ruled = built(case, rule=True)
    assert places(ruled) != places(built(case, rule=False))
    assert not ruled.warnings


def test_check_warns_of_what_needs_no_graph() -> None:
    """Whether gradients are rows is known only from the traced tower."""
    for case in STILL.values():
        (found,) = check_spec(spec_of(text_of(case, rule=True)))
        assert found.code == "TFD604"
    for case in (*LATER.values(), *MOVING.values()):
        assert not check_spec(spec_of(text_of(case, rule=True)))


def test_copies_are_shown_beside_the_rule() -> None:
    """With the last rule for updates, as an earlier one is overruled anyway."""
    case = (CPUS, f"{COPIED}\n  updates -> cpu[1]", "", True, MOVED)
    (found,) = check_spec(spec_of(text_of(case, rule=True)))
    assert (found.span.text, found.labels[0].span.text) == ("updates -> cpu[2]", "variables -> replicated")
