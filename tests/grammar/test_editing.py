"""Rules are put into the text of a spec, and nothing else of it changes."""

import pytest

import grammar
from tfdeploy.suggesting.trials import with_rules

HEAD = """\
tfdeploy = 1  # a head
model "m" { x = input(float32, [2])  y = x -> Dense(1)  loss = y }
devices { gpu = 2 }
clones { batch = 2 }
"""
BLOCK = """\
place {
  # where towers are
  clones -> groups(gpu[*], size = 2)  # two

  variables -> cpu[0]  # all of them
  ops("a/*") -> group[1]
  variables("b/*") -> cpu[0]
}
"""


def changed(text: str, roles: set[str], rules: list[str]) -> str:
    """Return what becomes of a text, which is read."""
    return with_rules(grammar.read("spec.tfdeploy", text=text).trees[-1], roles, rules)


@pytest.mark.parametrize(
    ("block", "rules", "expected"),
    [
        ("", ["variables -> gpu[0]"], "\nplace {\n  variables -> gpu[0]\n}\n"),
        (
            BLOCK,
            ["variables -> gpu[0]", 'variables("c/*") -> gpu[1]'],
            BLOCK.replace(
                "variables -> cpu[0]  #", 'variables -> gpu[0]\n  variables("c/*") -> gpu[1]  #'
            ).replace('  variables("b/*") -> cpu[0]\n', ""),
        ),
        (
            BLOCK,
            [],
            BLOCK.replace("variables -> cpu[0]  #", "#").replace('  variables("b/*") -> cpu[0]\n', ""),
        ),
        (
            "place {\n  clones -> gpu[*]  # all\n}\n",
            ["variables -> replicated"],
            "place {\n  clones -> gpu[*]  # all\n  variables -> replicated\n}\n",
        ),
        ("place {}\n", ["variables -> replicated"], "place {\n  variables -> replicated\n}\n"),
        (
            "place { clones -> gpu[*] }  # here\n",
            ["variables -> replicated"],
            "place {\n  clones -> gpu[*]\n  variables -> replicated\n}  # here\n",
        ),
    ],
)
def test_rules_of_one_role_are_replaced(block: str, rules: list[str], expected: str) -> None:
    """Old rules of the role go, new ones come in their place; comments and other rules stay."""
    after = "train { steps = 1 }  # the end\n"
    tail = after if block else ""
    new = changed(HEAD + block + tail, {"variables"}, rules)
    assert new == HEAD + expected + tail


def test_a_text_without_changes_stays_as_it_is() -> None:
    """Without rules to remove or to add, not a character changes."""
    assert changed(HEAD, {"ops"}, []) == HEAD
    assert changed(HEAD + BLOCK, {"inputs"}, []) == HEAD + BLOCK


def test_what_was_written_can_be_read() -> None:
    """The rules of the new text are those that were given, after the ones that were kept."""
    rules = ["variables -> balanced(gpu[*])", 'ops("d/*") -> group[1]']
    reading = grammar.read("spec.tfdeploy", text=changed(HEAD + BLOCK, {"variables", "ops"}, rules))
    (block,) = [each for each in reading.trees[-1].items if getattr(each, "kind", "") == "place"]
    assert [each.span.text for each in block.items] == ["clones -> groups(gpu[*], size = 2)", *rules]
