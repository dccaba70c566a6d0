"""The model view in a browser: layers as a graph, coloured by device, each leading to its ops."""

from pathlib import Path

from compiler.report.page.tree import Details
from tests.browser import Tab
from tests.compiler.report.page.pages import DETAIL, NEEDS_BROWSER, model, write
from tests.placement_maps import SPEC, make_map

pytestmark = NEEDS_BROWSER

BOXES = (
    "[...document.querySelectorAll('#model [data-box]')].map((box) => [box.getAttribute('aria-label'),"
    "...['x', 'y'].map((each) => Number(box.querySelector('rect').getAttribute(each))),"
    "getComputedStyle(box.querySelector('rect')).fill])"
)


def test_layers_below_each_other(tab: Tab, tmp_path: Path) -> None:
    """Every box is below what leads to it, on the device of the clone that is chosen."""
    page = write(tmp_path / "model.html", make_map(2), Details(model=model()))
    tab.open(page)
    boxes = tab.evaluate(BOXES)
    assert [each[0] for each in boxes] == [
        "image, float32 [8, 8, none], on cpu[0]",
        "label, int32 [], on cpu[0]",
        "conv1, Conv2D, on gpu[0]",
        "logits, Dense, on gpu[0]",
        "sum, add, on no op",
        "loss/cross, CrossEntropy, on no op",
    ]
    x, y = ({name.split(",")[0]: each[at] for name, *each in boxes} for at in (0, 1))
    assert y["image"] < y["conv1"] < y["logits"] < y["sum"] < y["loss/cross"]
    assert y["label"] == y["sum"]  # right above the loss
    assert abs(x["label"] - x["sum"]) >= 184
    assert tab.evaluate("document.querySelectorAll('#model .flow').length") == 6
    image, _, conv, logits, _, _ = (each[3] for each in boxes)
    assert conv == logits != image
    tab.open(page, "#clone=1")
    assert tab.evaluate(BOXES)[2][0] == "conv1, Conv2D, on gpu[1]"
    assert tab.evaluate(BOXES)[2][3] not in {conv, image}


def test_a_layer_leads_to_its_ops_its_rule_and_its_line(tab: Tab, tmp_path: Path) -> None:
    """By key or mouse; the address has the layer, and opens the page with it."""
    page = write(tmp_path / "model.html", make_map(2), Details(model=model()))
    tab.open(page)
    tab.evaluate("document.querySelector('#model [data-box=\"2\"]').focus()")
    tab.press("Enter")
    assert tab.evaluate("location.hash") == "#layer=2,conv1"
    detail = tab.evaluate(DETAIL)
    assert detail.startswith(f"conv1\nlayer\nConv2D\nops\nclone_0/conv1\nWritten in\n\n{SPEC}:12:1\n")
    assert "the rule clones -> gpu[*]" in detail
    assert tab.evaluate("document.querySelector('#model [aria-pressed=true]').dataset.box") == "2"
    tab.open(page, tab.evaluate("location.hash"))
    assert tab.evaluate(DETAIL) == detail
    tab.click("#said dd button")
    assert tab.evaluate("location.hash") == "#open=clone_0&sel=clone_0%2Fconv1"
    tab.click('#model [data-box="4"]')
    assert "none: the step does not need it" in tab.evaluate(DETAIL)


def test_a_model_of_clones_that_are_alike(tab: Tab, tmp_path: Path) -> None:
    """The devices of a clone are known without it being taken out of its family."""
    tab.open(write(tmp_path / "model.html", make_map(8), Details(model=model())), "#clone=5")
    assert tab.evaluate(BOXES)[2][0] == "conv1, Conv2D, on gpu[5]"
    assert tab.evaluate("document.getElementById('join').hidden")


def test_no_model_without_a_spec(tab: Tab, page: Path) -> None:
    """A map from a file says nothing of layers; an address that names one opens it all the same."""
    tab.open(page, "#layer=1,conv1")
    assert tab.evaluate("document.getElementById('model-section').offsetHeight") == 0
    assert tab.evaluate(DETAIL).startswith("Why is it there?")


def test_a_single_clone_shares_scopes_with_its_variables(tab: Tab, tmp_path: Path) -> None:
    """The device of a layer is that of its computation, wherever its variables, slots and reads are."""
    tab.open(write(tmp_path / "model.html", make_map(1), Details(model=model())))
    assert tab.evaluate(BOXES)[3][0] == "logits, Dense, on gpu[0]"
