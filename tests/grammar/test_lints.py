"""Warnings: what is only strange, and how to say that it is meant."""

import pytest

import grammar

MODEL = 'model "m" {\n  x = input(float32, [1])\n  y = x -> Dense(1)\n  output = y\n}\n'
IN_A_STRING = 'train { directory = "# tfdeploy: allow(unused-constant)" }'
WORKERS = 'devices {\n  job "worker" { tasks = 2, gpu = 2 }\n}\n'


def warnings(text: str) -> list[tuple[str, str]]:
    """Return code and text of the place of each warning of a spec that has no errors."""
    reading = grammar.read("spec.tfdeploy", text=text)
    assert reading.spec is not None, [each.message for each in reading.diagnostics]
    return [(each.code, "" if each.span is None else each.span.text) for each in reading.diagnostics]


@pytest.mark.parametrize(
    ("blocks", "found"),
    [
        ("let { a = 1, b = a }\n", [("TFD602", "b")]),
        ("let { a = 1 }\nclones { count = a }\n", []),
        ('layer "l" {\n  x = input()\n  output = x\n}\n', [("TFD605", 'layer "l"')]),
        ("devices { gpu = 2 }\n", []),
        ("devices { gpu = 2 }\nclones { count = 1 }\n", [("TFD603", "2")]),
        ("devices { gpu = 2 }\nclones { count = 1 }\nplace { evaluation -> gpu[1] }\n", []),
        ("devices { cpu = 2 }\nclones { count = 3 }\n", [("TFD607", "3")]),
        ("devices { gpu = 2 }\nclones { count = 3 }\nplace { clones -> gpu[*] }\n", [("TFD607", "3")]),
        ("devices { cpu = 2 }\nclones { count = 4 }\nplace { clones -> cpu[*] }\n", []),
        ("devices { cpu = 4 }\nclones { count = 3 }\nplace { clones -> cpu[*] }\n", [("TFD608", "3")]),
        ("devices { cpu = 4 }\nclones { count = 3 }\nplace { clones -> cpu[0..2] }\n", []),
        (
            "devices { cpu = 4 }\nclones { count = 3 }\nplace { clones -> groups(cpu[*], size = 2) }\n",
            [("TFD607", "3")],
        ),
        ("devices { cpu = 2 }\nclones { count = 3 }  # tfdeploy: allow(uneven-clones)\n", []),
        ("devices { cpu = 2 }\nplace { evaluation -> cpu[1] }\n", []),
        ("devices { gpu = 2 }\nplace { clones -> gpu[0] }\n", [("TFD603", "2")]),
        ("devices { gpu = 4 }\nclones { count = 2 }\nplace { clones -> groups(gpu[*], size = 2) }\n", []),
        (f"{WORKERS}place {{ clones -> worker[0].gpu[*] }}\n", [("TFD603", "2")]),
        ("place {\n  inputs -> cpu[0]\n  inputs -> cpu[0]\n}\n", [("TFD604", "inputs -> cpu[0]")]),
        ('place {\n  variables -> cpu[0]\n  variables("a*") -> cpu[0]\n}\n', []),
        ('place {\n  ops("a") -> cpu[0]\n  ops("*") -> cpu[0]\n}\n', [("TFD604", 'ops("a") -> cpu[0]')]),
        ('place {\n  ops("a") -> cpu[0]\n  ops("b") -> cpu[0]\n}\n', []),
    ],
)
def test_lint(blocks: str, found: list[tuple[str, str]]) -> None:
    """Each lint finds what it is for, and leaves alone what only looks like it."""
    assert warnings(f"tfdeploy = 1\n{blocks}{MODEL}") == found


def test_unused_bindings_count_where_something_is_used() -> None:
    """A binding that goes nowhere is reported; a model without loss and output is not judged."""
    text = "tfdeploy = 1\n" + MODEL.replace("  output", "  z = y -> Dense(2)\n  output")
    assert warnings(text) == [("TFD601", "z")]
    assert warnings(text.replace("  output = y\n", "")) == []


def test_lints_wait_until_nothing_is_wrong() -> None:
    """Where there are errors nothing else is complained of."""
    reading = grammar.read("s", text=f"tfdeploy = 1\nlet {{ a = 1 }}\nclones {{ cuont = 2 }}\n{MODEL}")
    assert [each.code for each in reading.diagnostics] == ["TFD202"]


@pytest.mark.parametrize(
    "text",
    [
        f"# tfdeploy: allow(unused-constant)\ntfdeploy = 1\nlet {{ a = 1 }}\n{MODEL}",
        f"tfdeploy = 1\n# tfdeploy: allow(unused-constant)\nlet {{ a = 1 }}\n{MODEL}",
        f"tfdeploy = 1\nlet {{ a = 1 }} # tfdeploy: allow(unused-constant, unused-layer)\n{MODEL}",
        f"tfdeploy = 1\nlet {{\n  # tfdeploy: allow(unused-constant)\n\n  a = 1\n}}\n{MODEL}",
        f"# tfdeploy: allow(missing-version)\n{MODEL}",
    ],
)
def test_a_comment_allows_a_lint(text: str) -> None:
    """On its line, on the next one with something on it, or, before everything else, in the whole file."""
    assert warnings(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"tfdeploy = 1\n# tfdeploy: allow(unused-layer)\nlet {{ a = 1 }}\n{MODEL}",
        f"tfdeploy = 1\n# tfdeploy: allow(unused-constant)\nclones {{ count = 1 }}\nlet {{ a = 1 }}\n{MODEL}",
        f"tfdeploy = 1\n{IN_A_STRING}\nlet {{ a = 1 }}\n{MODEL}",
    ],
)
def test_a_comment_allows_nothing_else(text: str) -> None:
    """Another name, another line, and a string that only looks like a comment change nothing."""
    assert warnings(text) == [("TFD602", "a")]


def test_errors_cannot_be_allowed() -> None:
    """A comment that allows what is no lint is reported, and the error stays."""
    text = f"# tfdeploy: allow(unknown-attribute)\ntfdeploy = 1\nclones {{ cuont = 1 }}\n{MODEL}"
    assert [each.code for each in grammar.read("s", text=text).diagnostics] == ["TFD606", "TFD202"]
