"""The page of a plan whose graph was not built."""

import grammar
from compiler.pipeline import make_plan
from tests.folders import ROOT
from tests.placement_maps import make_map
from tfdeploy.looking import plan_page


def test_a_plan_without_a_graph_has_its_model() -> None:
    """The map of many clones that are alike has no graph, and its page still draws the layers."""
    plan = make_plan(grammar.load(ROOT / "examples" / "transformer.tfdeploy"))
    assert '"boxes":[["characters","int32 [48]","input"' in plan_page(make_map(8), {}, plan)
    assert '"model":null' in plan_page(make_map(8), {})
