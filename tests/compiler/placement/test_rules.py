"""Rules of `place`: the last one that matches wins, targets give their devices, and each knows why."""

import pytest
from attrs import evolve

import grammar
from compiler.mapping.records import RuleRef
from compiler.placement.rules import Rulebook
from compiler.plan import Tower
from compiler.reasons import Placed, Reason
from compiler.towers import towers_of_worker
from dsl import ir
from dsl.source import Source, Span
from tests.compiler.placement.places import Places, places, variables
from tests.specs import CLASSES
from tests.support import marked

FOUR_GPUS = "devices {\n cpu = 2\n gpu = 4\n }\n"
CLUSTER = 'devices {\n job "ps" { tasks = 2 }\n job "worker" { tasks = 2, gpu = 2, cpu = 1 }\n }\n'


def place(rules: str, *, devices: str = FOUR_GPUS, clones: str = "batch = 2") -> Places:
    """Return the placement by some rules."""
    return places(f"{devices} clones {{ {clones} }}\n place {{\n {rules}\n }}")


def op(book: Rulebook, name: str, tower: Tower, forward: str | None = None) -> Placed | None:
    """Return the place that a rule `ops(...)` gives to an op of a tower, or None if no rule matches."""
    reason = book.decide_op(name, tower, forward)
    return None if reason is None else Placed(book.op_device(reason, tower), reason)


def told(reason: Reason) -> tuple[str, str, list[str]]:
    """Return what a reason says: its text, its kind, and the rules that were beaten."""
    spans = [rule.span for rule in reason.beaten]
    return (reason.text, reason.kind, [span.text for span in spans if span is not None])


def test_last_rule_that_matches_wins_and_names_those_it_beat() -> None:
    """Of three rules for one variable the last decides; the others are kept in order."""
    found = place('variables -> cpu[0]\n variables("v1") -> cpu[1]\n variables("v*") -> gpu[0]')
    (placed,) = found.variables(variables(4))
    assert placed.placed.device.ref == "gpu[0]"
    assert told(placed.placed.reason) == ('variables("v*") -> gpu[0]', "rule", ["variables -> cpu[0]"])
    second = found.variables(variables(4, 4))[1]
    assert told(second.placed.reason)[2] == ["variables -> cpu[0]", 'variables("v1") -> cpu[1]']


def test_a_rule_knows_its_place_and_is_shown_in_one_line() -> None:
    """The span of the deciding rule is that of its text in the spec, whose white space is folded."""
    (placed,) = place("\n   variables -> [\n  gpu[2],\n  gpu[1]\n]").variables(variables(4))
    reason = placed.placed.reason
    span = reason.span
    assert (span.text.splitlines()[0], span.begin.column) == ("variables -> [", 4)
    assert reason.text == "variables -> [ gpu[2], gpu[1] ]"


@pytest.mark.parametrize(
    ("rules", "homes"),
    [
        ("variables -> gpu[3]", "gpu[3] gpu[3] gpu[3] gpu[3]"),
        ("variables -> gpu[1..2]", "gpu[1] gpu[2] gpu[1] gpu[2]"),
        ("variables -> [gpu[0], cpu[1]]", "gpu[0] cpu[1] gpu[0] cpu[1]"),
        ("variables -> [gpu[2], gpu[0], gpu[1]]", "gpu[2] gpu[0] gpu[1] gpu[2]"),
        ("variables -> round_robin(cpu[*])", "cpu[0] cpu[1] cpu[0] cpu[1]"),
        # Variables that a later glob does not match stay where the earlier rule puts them.
        ('variables -> cpu[0]\n variables("v[13]") -> gpu[1]', "cpu[0] gpu[1] cpu[0] gpu[1]"),
        # A rule deals its set out to what it decides, from the beginning, whatever other rules take.
        ('variables -> cpu[0..1]\n variables("v[02]") -> gpu[0..1]', "gpu[0] cpu[0] gpu[1] cpu[1]"),
    ],
)
def test_a_set_is_used_in_turn_in_its_own_order(rules: str, homes: str) -> None:
    """Variables take the devices of a set one after the other, in the order of creation."""
    assert " ".join(place(rules).homes(variables(4, 4, 4, 4))) == homes


@pytest.mark.parametrize(
    ("rules", "count", "towers"),
    [
        ("clones -> [gpu[3], gpu[0], cpu[0]]", "count = 5, ", "gpu[3] / gpu[0] / cpu[0] / gpu[3] / gpu[0]"),
        (
            "clones -> groups(gpu[*], size = 2)",
            "count = 3, ",
            "gpu[0] gpu[1] / gpu[2] gpu[3] / gpu[0] gpu[1]",
        ),
        # What does not fill a group is left.
        ("clones -> groups(gpu[0..2], size = 2)", "", "gpu[0] gpu[1]"),
        ("clones -> groups(gpu[*], size = 3)", "", "gpu[0] gpu[1] gpu[2]"),
    ],
)
def test_clones_take_devices_in_order_and_wrap_round(rules: str, count: str, towers: str) -> None:
    """Each has one device or a group of them, and those after the last begin with the first again."""
    found = place(rules, clones=f"{count}batch = 2").towers
    assert " / ".join(" ".join(each.ref for each in tower.devices) for tower in found) == towers


@pytest.mark.parametrize(
    ("rules", "inner", "devices"),
    [
        ('clones -> groups(gpu[*], size = 2)\n ops("fc/*") -> group[1]', "fc/MatMul", ["gpu[1]", "gpu[3]"]),
        # Clone k has the k-th device of a set for all ops of the rule.
        ('clones -> gpu[0..2]\n ops("fc/*") -> cpu[*]', "fc/MatMul", ["cpu[0]", "cpu[1]", "cpu[0]"]),
        ('clones -> gpu[0..1]\n ops("fc/*") -> cpu[*]', "encoder/MatMul", [None, None]),
    ],
)
def test_ops_go_to_devices_by_clone(rules: str, inner: str, devices: list[str | None]) -> None:
    """A member of a group is another device for every clone; other ops are left to the tower."""
    found = place(rules)
    placed = [op(found.book, inner, tower) for tower in found.towers]
    assert [each and each.device.ref for each in placed] == devices


def test_replicated_variables_have_a_copy_on_a_device_of_every_clone() -> None:
    """The first is where the variable is at home; `group[1]` is the second device of each clone's group."""
    found = place(
        'clones -> groups(gpu[*], size = 2)\n variables -> replicated\n variables("v1") -> group[1]'
    ).variables(variables(4, 4))
    assert [[each.ref for each in placed.copies] for placed in found] == [
        ["gpu[0]", "gpu[2]"],
        ["gpu[1]", "gpu[3]"],
    ]
    assert [each.placed.device.ref for each in found] == ["gpu[0]", "gpu[1]"]


SERVERS = 'devices {\n job "ps" { tasks = 2 }\n }\n'


@pytest.mark.parametrize(
    ("rules", "devices", "clones", "homes", "inputs"),
    [
        ("", CLUSTER, "[0].gpu[0] [0].gpu[1] [1].gpu[0] [1].gpu[1]", "ps[0] ps[1]", "worker[0]"),
        ("clones -> worker[1].gpu[*]", CLUSTER, "[1].gpu[0] [1].gpu[1]", "ps[0] ps[1]", "worker[0]"),
        ("clones -> worker[*].gpu[1]", CLUSTER, "[0].gpu[1] [1].gpu[1]", "ps[0] ps[1]", "worker[0]"),
        (
            "clones -> gpu[0]\n variables -> ps[1]",
            CLUSTER,
            "[0].gpu[0] [1].gpu[0]",
            "ps[1] ps[1]",
            "worker[0]",
        ),
        (
            "clones -> cpu[*]\n variables -> balanced(ps[*])",
            CLUSTER,
            "[0].cpu[0] [1].cpu[0]",
            "ps[0] ps[1]",
            "worker[0]",
        ),
        (
            "clones -> groups(gpu[*], size = 2)\n variables -> worker[1].cpu[0]",
            CLUSTER,
            "[0].gpu[0] [1].gpu[0]",
            "worker[1] worker[1]",
            "worker[0]",
        ),
        # Where there is no worker, what belongs to one is with the first parameter server.
        ("clones -> ps[*]", SERVERS, "ps[0].cpu[0] ps[1].cpu[0]", "ps[0] ps[1]", "ps[0]"),
    ],
)
def test_targets_reach_across_jobs(rules: str, devices: str, clones: str, homes: str, inputs: str) -> None:
    """Plain `gpu[*]` is every worker's, by task and then by index; `ps[t]` is its first CPU."""
    found = place(rules, devices=devices)
    assert " ".join(each.device.ref.removeprefix("worker") for each in found.towers) == clones
    assert found.homes(variables(4, 4)) == [f"{each}.cpu[0]" for each in homes.split()]
    assert found.book.inputs().device.ref == f"{inputs}.cpu[0]"


def test_a_gradient_goes_with_its_forward_op_unless_a_rule_names_it() -> None:
    """A rule for the forward op takes the gradient along; a later one for the gradient's own name wins."""
    both = 'ops("fc/*") -> cpu[0]\n ops("gradients/fc/Bias*") -> cpu[1]'
    found = place(both)
    tower = found.towers[0]
    followed = op(found.book, "gradients/fc/MatMul_grad/MatMul", tower, "fc/MatMul")
    named = op(found.book, "gradients/fc/BiasAdd_grad/BiasAddGrad", tower, "fc/BiasAdd")
    assert (followed.device.ref, told(followed.reason)) == ("cpu[0]", ("fc/MatMul", "follows", []))
    assert followed.reason.root.text == 'ops("fc/*") -> cpu[0]'
    assert named.device.ref == "cpu[1]"
    assert told(named.reason) == ('ops("gradients/fc/Bias*") -> cpu[1]', "rule", ['ops("fc/*") -> cpu[0]'])


def test_slots_and_updates_follow_their_variable() -> None:
    """Without rules both are where the variable is, because it is."""
    (placed,) = place("variables -> gpu[1]").variables(variables(4))
    assert placed.updates is not None
    for each in (placed.slots, placed.updates):
        assert (each.device.ref, told(each.reason)) == ("gpu[1]", ("v0", "follows", []))
        assert each.reason.root.text == "variables -> gpu[1]"


def test_slots_and_updates_are_dealt_out_by_rules_of_their_own() -> None:
    """Sets in these rules are used in turn as well, and globs of `slots` are on names of variables."""
    found = place('variables -> cpu[0]\n updates -> gpu[0..1]\n slots("v[12]") -> gpu[2..3]')
    placed = found.variables(variables(4, 4, 4))
    assert [each.updates.device.ref for each in placed if each.updates] == ["gpu[0]", "gpu[1]", "gpu[0]"]
    assert [each.slots.device.ref for each in placed] == ["cpu[0]", "gpu[2]", "gpu[3]"]


def test_statistics_have_neither_slots_nor_gradients_to_place() -> None:
    """What is not trained takes no turn in the rules for slots and updates."""
    found = place("updates -> gpu[0..1]")
    kernel, mean, bias = variables(4, 4, 4)
    untrained = type(mean)(mean.name, mean.shape, mean.dtype, mean.bytes, trainable=False)
    placed = found.variables([kernel, untrained, bias])
    assert [each.updates.device.ref for each in placed if each.updates] == ["gpu[0]", "cpu[0]", "gpu[1]"]


def test_single_roles_have_rules_and_defaults() -> None:
    """Inputs, summaries and evaluation: the rule's first device, or the default with its own text."""
    ruled = place("inputs -> cpu[1]\n summaries -> cpu[1]\n evaluation -> gpu[2]")
    tower = ruled.towers[0]
    assert ruled.book.inputs().device.ref == "cpu[1]"
    assert ruled.book.summaries().device.ref == "cpu[1]"
    assert ruled.book.evaluation(tower.device).device.ref == "gpu[2]"
    plain = place("")
    assert told(plain.book.inputs().reason) == ("inputs -> cpu[0]", "default", [])
    assert told(plain.book.summaries().reason) == ("summaries -> cpu[0]", "default", [])
    assert told(plain.book.evaluation(tower.device).reason) == ("evaluation -> gpu[0]", "default", [])


def test_inputs_of_clones_that_read_each_for_itself_take_a_set_in_turn() -> None:
    """Clone k reads on the k-th device of the rule, or on its own worker's CPU."""
    found = place("inputs -> cpu[*]", clones="count = 3, batch = 2")
    assert [found.book.inputs(each).device.ref for each in found.towers] == ["cpu[0]", "cpu[1]", "cpu[0]"]
    cluster = place("", devices=CLUSTER)
    assert [cluster.book.inputs(each).device.ref for each in cluster.towers] == [
        "worker[0].cpu[0]",
        "worker[0].cpu[0]",
        "worker[1].cpu[0]",
        "worker[1].cpu[0]",
    ]


@pytest.mark.parametrize("role", ["slots", "updates", "inputs", "summaries", "evaluation"])
def test_a_group_member_is_no_target_for_what_belongs_to_no_clone(role: str) -> None:
    """Only ops and variables have a clone whose group is meant; the rest is refused where it is written."""
    text = (
        CLASSES + "devices { cpu = 4 }\nclones { batch = 2 }\nplace {\n  clones -> groups(cpu[*], size = 2)\n"
    )
    (found,) = grammar.read("test.tfdeploy", text=f"{text}  {role} -> group[1]\n}}\n").diagnostics
    assert (found.code, found.message) == ("TFD408", f"`group` is no target for `{role}`")
    assert marked(found) == "group[1]"


def test_what_belongs_to_no_clone_is_near_the_worker_whose_graph_it_is() -> None:
    """Each worker takes its own devices of a rule; the global step is one for all."""
    found = place("inputs -> worker[*].cpu[0]\n summaries -> worker[0].cpu[0]", devices=CLUSTER)
    book = evolve(found.book, topology=evolve(found.topology, home=("worker", 1)))
    tower = found.towers[2]
    assert tower.device.host == ("worker", 1)
    words = book.on_cpu("strings", tower)
    placed = (book.inputs(), book.summaries(), book.optimizer(), book.global_step(), words)
    assert [each.device.ref for each in placed] == [
        "worker[1].cpu[0]",
        "worker[0].cpu[0]",
        "worker[1].cpu[0]",
        "ps[0].cpu[0]",
        "worker[1].cpu[0]",
    ]
    assert [told(each.reason)[:2] for each in placed[2:]] == [
        ("optimizer -> worker[1].cpu[0]", "default"),
        ("global_step -> ps[0].cpu[0]", "default"),
        ("strings -> worker[1].cpu[0]", "default"),
    ]
    assert found.book.on_cpu("strings", tower).device.ref == "worker[1].cpu[0]"


def test_ops_take_the_devices_of_their_own_worker() -> None:
    """In the graph of a worker, clone k has the k-th device of its own among those of the rule."""
    found = place('ops("fc/*") -> gpu[*]', devices=CLUSTER)
    book = evolve(found.book, topology=evolve(found.topology, home=("worker", 1)))
    own = [op(book, "fc/MatMul", each) for each in towers_of_worker(found.towers, ("worker", 1))]
    assert [each.device.ref for each in own if each is not None] == ["worker[1].gpu[0]", "worker[1].gpu[1]"]


def test_no_rule_for_ops_moves_those_of_an_evaluation_that_has_a_rule() -> None:
    """The evaluation tower stays whole where its rule puts it; without one, rules for ops count, too."""
    found = place('evaluation -> cpu[1]\n ops("fc/*") -> cpu[0]')
    (first, *_) = found.towers
    ruled = evolve(first, reason=found.book.evaluation(first.device).reason)
    assert op(found.book, "fc/MatMul", ruled) is None
    assert op(found.book, "fc/MatMul", first) is not None


def test_rules_without_devices_of_their_own() -> None:
    """Copies are on the devices of the clones, and a default has no target."""
    found = place("variables -> replicated")
    reason = found.book.decide("variables", "v0")
    assert reason is not None
    with pytest.raises(TypeError, match="Replicated names no devices"):
        found.book.devices(reason.target)
    assert found.book.optimizer().reason.target is None


SPAN = Span(Source("a.tfdeploy", "place {\n  variables -> cpu[0]\n}\n"), 10, 29)
RULE = ir.Rule(ir.Selector("variables"), ir.Replicated(), span=SPAN)


def test_what_follows_another_thing_tells_what_placed_that() -> None:
    """At the end of the chain; a rule has its place in the spec, and a default has none."""
    placed = Reason("variables -> cpu[0]", "rule", RULE)
    slot = Reason("dense/kernel", "follows", RULE, cause=placed)
    update = Reason("dense/kernel/momentum", "follows", RULE, cause=slot)
    default = Reason("clones -> gpu[*]", "default")
    assert RuleRef.of(placed) == RuleRef("a.tfdeploy", 2, 3, "variables -> cpu[0]", "rule")
    assert RuleRef.of(update) == RuleRef(
        "a.tfdeploy", 2, 3, "dense/kernel/momentum", "follows", "variables -> cpu[0]"
    )
    assert RuleRef.of(default) == RuleRef(None, None, None, "clones -> gpu[*]", "default")
    followed = Reason("op", "follows", cause=default)
    assert RuleRef.of(followed) == RuleRef(None, None, None, "op", "follows", "clones -> gpu[*]")
