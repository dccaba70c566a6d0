"""The places of variables: defaults, pieces, parts of clones, and all devices that rules spread over."""

from math import prod

import pytest
from attrs import evolve

from compiler.placement.variable_rules import homes_of, pieces_of, place_variables
from compiler.plan import VariableInfo
from compiler.shards import cut
from dsl.diagnostics import SpecError
from tests.compiler.placement.places import Places, places, variables
from tests.support import marked, refusal_of

FOUR_CPUS = "devices {\n cpu = 4\n }\nclones {\n count = 2, batch = 2\n }\n"


def place(rules: str, blocks: str = FOUR_CPUS) -> Places:
    """Return the placement by some rules."""
    return places(f"{blocks}place {{\n {rules}\n }}")


@pytest.mark.parametrize(
    ("devices", "text", "homes"),
    [
        ("cpu = 2", "variables -> cpu[0]", ["cpu[0]"] * 3),
        (
            'job "worker" { tasks = 2, cpu = 2 }',
            "variables -> worker[0].cpu[0]",
            ["worker[0].cpu[0]"] * 3,
        ),
        (
            'job "worker" { tasks = 1 }\n job "ps" { tasks = 2, cpu = 2 }',
            "variables -> round_robin(ps[*])",
            ["ps[0].cpu[0]", "ps[1].cpu[0]", "ps[0].cpu[0]"],
        ),
    ],
)
def test_without_a_rule_variables_are_on_the_parameter_servers_or_with_the_chief(
    devices: str, text: str, homes: list[str]
) -> None:
    """The default is told as it would be written, and all its devices count as homes."""
    found = places(f"devices {{\n {devices}\n }}\nclones {{ batch = 2 }}\n")
    placed = found.variables(variables(4, 4, 4))
    assert [each.placed.device.ref for each in placed] == homes
    assert {(each.placed.reason.text, each.placed.reason.kind) for each in placed} == {(text, "default")}
    spread = homes_of(found.book, ["v0"], found.towers)
    assert [each.ref for each in spread] == list(dict.fromkeys(homes))


@pytest.mark.parametrize(
    ("rules", "names", "homes"),
    [
        ("variables -> balanced(cpu[1..3])", "v0", "cpu[1] cpu[2] cpu[3]"),
        ("variables -> [cpu[3], cpu[1], cpu[3]]", "v0", "cpu[3] cpu[1]"),
        ("variables -> sharded(cpu[2..3])", "v0", "cpu[2] cpu[3]"),
        ("clones -> cpu[1..2]\n variables -> replicated", "v0", "cpu[1] cpu[2]"),
        ("clones -> groups(cpu[*], size = 2)\n variables -> group[1]", "v0", "cpu[1] cpu[3]"),
        ('variables -> cpu[1]\n variables("v[1]") -> cpu[2]', "v0 v1 v2", "cpu[1] cpu[2]"),
        ('variables -> cpu[1]\n variables("v*") -> cpu[2]', "v0 v1", "cpu[2]"),
        ('variables("v1") -> cpu[2]', "v0 v1", "cpu[0] cpu[2]"),
    ],
)
def test_all_devices_over_which_variables_are_spread(rules: str, names: str, homes: str) -> None:
    """Each once, also those that nothing is on; rules that decide for no variable have none."""
    found = place(rules)
    assert " ".join(each.ref for each in homes_of(found.book, names.split(), found.towers)) == homes


@pytest.mark.parametrize(
    ("target", "counts"),
    [
        ("sharded(cpu[0..2])", [3, 2, 0]),
        ("sharded([cpu[0], cpu[1], cpu[0]])", [2, 2, 0]),
        ("sharded(cpu[*], min_size = 100B)", [3, 0, 0]),
        ("sharded(cpu[2])", [0, 0, 0]),
        ("balanced(cpu[*])", [0, 0, 0]),
    ],
)
def test_pieces_of_variables(target: str, counts: list[int]) -> None:
    """At most one for each device, for each row, and of the least size; a number stays whole."""
    book = place(f"variables -> {target}").book
    shapes = ((10, 8), (2, 4), ())
    assert [len(pieces_of(book, "w", each, 4 * prod(each))) for each in shapes] == counts


def test_pieces_are_cut_along_the_axis_of_their_rule() -> None:
    """There is none after the last axis, and variables of other rules stay whole."""
    book = place('variables("w") -> sharded(cpu[0..1], axis = 1)').book
    assert [each.shape for each in pieces_of(book, "w", (3, 5), 60)] == [(3, 3), (3, 2)]
    assert pieces_of(book, "v", (3, 5), 60) == ()
    only = refusal_of(lambda: pieces_of(book, "w", (3,), 12))
    assert (only.code, only.message) == ("TFD547", "`w` has no axis 1")
    assert marked(only) == "1"
    assert pieces_of(place("variables -> sharded(cpu[*])").book, "step", (), 8) == ()


@pytest.mark.parametrize(
    ("target", "shape", "reason"),
    [
        ("sharded(cpu[0..2])", (9, 2), None),
        ("sharded(cpu[*])", (2, 9), "2 pieces for 4 devices, because it has 2 rows"),
        ("sharded(cpu[*], axis = 1)", (9, 3), "3 pieces for 4 devices, because it has 3 rows"),
        ("sharded(cpu[*])", (1, 9), "1 piece for 4 devices, because it has 1 row"),
        ("sharded(cpu[*])", (), "1 piece for 4 devices, because it has 1 row"),
        (
            "sharded(cpu[*], min_size = 100B)",
            (9, 8),
            "2 pieces for 4 devices, because a piece has at least 100 B",
        ),
        (
            "sharded(cpu[*], min_size = 200B)",
            (9, 8),
            "1 piece for 4 devices, because a piece has at least 200 B",
        ),
        ("sharded([cpu[0], cpu[0]])", (9, 8), None),
        ("balanced(cpu[*])", (1,), None),
    ],
)
def test_why_a_variable_has_fewer_pieces_than_devices(
    target: str, shape: tuple[int, ...], reason: str | None
) -> None:
    """It has no more rows, or pieces would be too small."""
    found = place(f"variables -> {target}")
    size = 4 * prod(shape)
    pieces = pieces_of(found.book, "w", shape, size)
    infos = [VariableInfo(each.name, each.shape, "float32", 4, shard=each) for each in pieces]
    placed = found.variables(infos or [VariableInfo("w", shape, "float32", size)])
    assert {each.fewer for each in placed} == {reason}


def test_rules_name_variables_and_hold_for_their_pieces() -> None:
    """The pieces of `table` are moved by a rule for `table`, with their slots and updates."""
    found = place('variables("table") -> sharded(cpu[2..3])\n slots("table") -> cpu[1]\n updates -> cpu[0]')
    pieces = [
        VariableInfo(each.name, each.shape, "float32", 16, shard=each) for each in cut("table", (8,), 32, 2)
    ]
    placed = found.variables(pieces)
    assert [each.placed.device.ref for each in placed] == ["cpu[2]", "cpu[3]"]
    assert [each.slots.device.ref for each in placed] == ["cpu[1]"] * 2
    assert [each.updates.device.ref for each in placed if each.updates] == ["cpu[0]"] * 2


def test_each_rule_for_slots_deals_out_its_own_set() -> None:
    """A variable that another rule decides for takes no turn."""
    found = place('slots -> cpu[2..3]\n slots("v1") -> cpu[0..1]')
    placed = found.variables(variables(4, 4, 4, 4))
    assert [each.slots.device.ref for each in placed] == ["cpu[2]", "cpu[0]", "cpu[3]", "cpu[2]"]


OVER_CLONES = "variables -> replicated\n slots -> sharded(clones)"


def parts(found: Places, infos: list[VariableInfo], by_rows: frozenset[str] = frozenset()) -> list[list[int]]:
    """Return the elements of each variable that each clone updates."""
    placed = place_variables(found.book, infos, found.towers, by_rows)
    return [
        [sum(prod(part.shard.shape) for part in each.parts if part.copy == clone) for clone in (0, 1)]
        for each in placed
    ]


def test_clones_update_equal_parts() -> None:
    """What is left over of a variable goes to the clone that has fewer bytes of slots so far, or of it."""
    found = place(OVER_CLONES)
    assert parts(found, variables(12, 12, 20, 4, slots=1)) == [[2, 1], [1, 2], [3, 2], [0, 1]]
    heavy = [*variables(12, slots=3), *(evolve(each, name="w") for each in variables(4, slots=1))]
    again = [evolve(each, name=f"u{at}") for at, each in enumerate(variables(4, 4, slots=1))]
    assert parts(found, [*heavy, *again]) == [[2, 1], [0, 1], [0, 1], [0, 1]]
    assert parts(found, variables(12, 12, 4)) == [[2, 1], [1, 2], [1, 0]]  # of SGD, which has no slots


def test_variables_with_rows_are_parted_in_rows() -> None:
    """A clone that gets rows of a gradient needs the whole of each."""
    table, other = (VariableInfo(name, (3, 5), "float32", 60, slot_bytes=60) for name in ("table", "other"))
    assert parts(place(OVER_CLONES), [table, other], frozenset({"table"})) == [[10, 5], [7, 8]]


def test_what_is_not_trained_and_what_is_alone_has_no_parts() -> None:
    """A single clone has all slots, beside its only copy."""
    found = place(OVER_CLONES)
    (mean,) = variables(12)
    assert parts(found, [evolve(mean, trainable=False)]) == [[0, 0]]
    alone = place(OVER_CLONES, "devices { cpu = 4 }\nclones { count = 1, batch = 2 }\n")
    (placed,) = alone.variables(variables(12, slots=1))
    assert placed.parts == ()
    assert placed.slots.device.ref == placed.placed.device.ref == "cpu[0]"
    assert placed.slots.reason.text == "slots -> sharded(clones)"


def test_slots_that_clones_share_weigh_on_their_devices() -> None:
    """Two clones have half of 300 bytes each beside their copies, so that what is balanced goes elsewhere."""
    found = place(
        'clones -> cpu[0..1]\n variables -> balanced(cpu[0..2])\n variables("v0") -> replicated\n'
        ' slots("v0") -> sharded(clones)'
    )
    (first, *_) = variables(100, slots=3)
    rest = [evolve(each, name=f"w{at}") for at, each in enumerate(variables(200, 200, 100))]
    assert found.homes([first, *rest])[1:] == ["cpu[2]", "cpu[2]", "cpu[0]"]


def test_slots_over_clones_of_variables_without_copies() -> None:
    """The first five are named, each with the rule that places it; a default has no place in the spec."""
    found = place('variables("v[0-8]") -> cpu[1]\n slots("v*") -> sharded(clones)')
    with pytest.raises(SpecError) as refusal:
        found.variables(variables(*[4] * 7))
    assert [each.code for each in refusal.value.diagnostics] == ["TFD549"] * 5
    assert [each.message.split("`")[1] for each in refusal.value.diagnostics] == [f"v{at}" for at in range(5)]
    assert [label.span.text for label in refusal.value.diagnostics[0].labels] == [
        'variables("v[0-8]") -> cpu[1]'
    ]
    plain = place("slots -> sharded(clones)")
    only = refusal_of(lambda: plain.variables(variables(4)))
    assert only.labels == ()
    assert marked(only) == "sharded(clones)"
