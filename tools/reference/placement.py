"""The page of selectors, targets and conditions."""

from __future__ import annotations

from dsl.schema import COMPARISONS, MEASURES, SELECTORS, TARGETS
from dsl.schema.placement import Measure, Selector, Target
from dsl.values import EXAMPLES
from tools.reference.markdown import NOTICE, table

PLACE = """\
# Placement and conditions

## Selectors

What stands on the left of a rule in [`place`](blocks.md#place). Rules are read from top to bottom; of those that match
a thing, the last one decides. A glob has `*` for any part of a name, `/` included, and `?` for one character.

"""
DEFAULTS = """\
What no rule selects goes here:

| what | default device |
| --- | --- |
| clones | `gpu[*]`, or `cpu[*]` if there are no GPUs |
| variables | `cpu[0]` |
| slots | where their variable is |
| inputs | `cpu[0]` |
| updates | where the variable is |
| summaries | `cpu[0]` |
| evaluation | the device of clone 0 |
| ops | the device of their clone |

## Targets

What stands on the right of a rule.

| target | goes with | meaning |
| --- | --- | --- |
| `gpu[0]`, `cpu[0..3]`, `gpu[*]`, `[gpu[0], cpu[0]]` | every selector | a device, or a set that is used in turn |
"""
EXPECT = f"""\
## Conditions

What [`expect`](blocks.md#expect) is made of: a measure, one of {", ".join(f"`{each}`" for each in COMPARISONS)}, and a
figure.

"""
GLOBS = {"none": "", "optional": '`{name}("glob")`', "required": '`{name}("glob")`, always'}
EXAMPLE = {
    "imbalance": "imbalance(variables) <= 10%",
    "memory": "memory(gpu[*]) <= 14GiB",
    "traffic": "traffic(cpu[0], gpu[*]) <= 500MiB",
    "step_time": "step_time <= 40ms",
    "busy": "busy(gpu[*]) >= 80%",
    "ops": 'ops(gpu[*], "summary*") == 0',
}


def page() -> str:
    """Return the text of the page."""
    selectors = table(["selector", "with a glob", "takes"], [_selector(each) for each in SELECTORS])
    targets = table(["", "", ""], [_target(each) for each in TARGETS]).split("\n", 2)[2]
    measures = table(["condition", "figure", "measures"], [_measure(each) for each in MEASURES])
    return (NOTICE + PLACE + selectors + DEFAULTS + targets + EXPECT + measures).rstrip("\n") + "\n"


def _selector(selector: Selector) -> list[str]:
    return [f"`{selector.name}`", GLOBS[selector.pattern].format(name=selector.name), selector.doc]


def _target(target: Target) -> list[str]:
    shown = {
        "word": "",
        "set": "(set)",
        "groups": "(set, size = N)",
        "pieces": "(set, axis = 0, min_size = 0B)",
        "clones": "(clones)",
        "member": "[index]",
    }[target.shape]
    return [f"`{target.name}{shown}`", ", ".join(f"`{each}`" for each in target.roles), target.doc]


def _measure(measure: Measure) -> list[str]:
    figure = "a count" if measure.dimension is None else f"such as `{EXAMPLES[measure.dimension]}`"
    return [f"`{EXAMPLE[measure.name]}`", figure, measure.doc]
