"""The HTML report as a browser shows it: what is there, what it does, that nothing of it runs."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests_selftest.page.conftest import SCRIPT, Look

README_PICTURE = Path(__file__).parents[2] / "docs" / "images" / "report.png"
wide = pytest.mark.parametrize("width", [1400], indirect=True, ids=["wide"])
phone = pytest.mark.parametrize("width", [400], indirect=True, ids=["phone"])
RED, GREEN, GREY = "rgb(179, 38, 30)", "rgb(23, 107, 44)", "rgb(102, 102, 102)"


def test_nothing_is_wider_than_the_window(look: Look, width: int, screenshots: Path) -> None:
    look.tab.screenshot(path=screenshots / f"report-{width}.png")
    assert look.overflow() <= 0
    look.tab.get_by_text("Show all details").click()
    look.tab.wait_for_function("[...document.images].some((image) => image.naturalWidth > 0)")
    look.tab.screenshot(path=screenshots / f"report-{width}-details.png", full_page=True)
    assert look.overflow() <= 0
    if width > 1000:
        for narrower in (1251, 1000):
            look.tab.set_viewport_size({"width": narrower, "height": 900})
            assert look.overflow() <= 0, narrower
    assert look.problems == []


@wide
def test_the_table_has_the_columns_of_its_campaign(look: Look) -> None:
    wanted = "Result Test Model Iteration Mutation Accuracy Memory Performance Finding Links"
    assert look.texts("#results-table th") == wanted.split()


@wide
def test_rows_are_closed_and_in_the_order_of_their_tests(look: Look) -> None:
    assert look.shown() == [str(number) for number in range(1, 13)]
    assert look.texts(".lmsv-details") == []


def test_verdicts_are_told_by_word_and_colour(look: Look) -> None:
    def cell(number: int, name: str) -> tuple[str, str]:
        found = look.tab.locator(f"#toy-iter{number} .col-lmsv_{name}")
        return found.inner_text(), found.evaluate("(cell) => getComputedStyle(cell).color")

    assert cell(1, "accuracy") == ("OK (diff=1.73%)", GREEN)
    assert cell(3, "accuracy") == ("NG (diff=6.49%)", RED)
    assert cell(5, "accuracy") == ("NG", RED)
    assert cell(2, "memory") == ("OK (diff=-2771.72MB)", GREEN)
    assert cell(4, "performance") == ("NG (diff=+1198.40ms)", RED)
    assert cell(6, "memory") == ("N/A", GREY)


def test_an_ng_outside_the_gate_is_less_loud(look: Look) -> None:
    def weight(number: int, name: str) -> str:
        found = look.tab.locator(f"#toy-iter{number} .col-lmsv_{name}")
        return str(found.evaluate("(cell) => getComputedStyle(cell).fontWeight"))

    assert (weight(3, "accuracy"), weight(4, "performance")) == ("700", "400")


@phone
def test_on_a_phone_each_cell_says_what_it_is(look: Look) -> None:
    assert look.tab.evaluate("innerWidth") == 400  # the page asks for the phone's own width
    label = "(cell) => getComputedStyle(cell, '::before').content"
    found = look.tab.locator("#toy-iter3 .col-lmsv_memory").evaluate(label)
    assert found == '"memory "'


def test_what_is_wrong_is_told_above_the_table(look: Look) -> None:
    told = look.tab.locator(".lmsv-ending").inner_text()
    assert "13 tests: 5 failed, 1 could not be tested, 7 passed" in told
    assert "11 valid, 1 invalid, 1 without effect, 1 not testable; MSA ran 8 of 11" in told
    classes = look.texts(".lmsv-classes th")
    assert classes[:2] == ["Accuracy", "Memory not in the gate"]
    assert "MSA error: device exception" in classes
    facts = look.tab.locator(".lmsv-facts").inner_text()
    for fact in ("mindspore 2.7.1", "torch 2.13.0", "cpu", "43", "pytest --model toy --iters 12"):
        assert fact in facts


@wide
def test_a_class_filters_the_rows(look: Look) -> None:
    button = look.tab.get_by_role("button", name="MSA error: device exception")
    button.click()
    assert look.shown() == ["6", "12"]
    look.tab.locator("th[data-column-type=lmsv_iteration]").click()
    look.tab.locator("th[data-column-type=lmsv_iteration]").click()
    assert look.shown() == ["12", "6"]  # sorting leaves it filtered
    button.click()
    assert len(look.shown()) == 12


@wide
def test_the_boxes_of_pytest_html_still_filter(look: Look) -> None:
    look.tab.locator("input[data-test-result=passed]").click()
    assert look.shown() == ["3", "5", "6", "7", "9", "12"]


@wide
@pytest.mark.parametrize(
    ("column", "order"),
    [
        ("iteration", "1 2 3 4 5 6 7 8 9 10 11 12"),
        ("memory", "2 5 4 1 3 10 11 8"),
        ("accuracy", "2 8 11 10 4 1 3 5"),
    ],
)
def test_columns_of_numbers_sort_by_number(look: Look, column: str, order: str) -> None:
    look.tab.locator(f"th[data-column-type=lmsv_{column}]").click()
    assert look.shown()[: len(order.split())] == order.split()


def test_a_picture_is_read_only_when_its_row_is_opened(look: Look) -> None:
    def pictures() -> list[str]:
        return [url.rsplit("/", 1)[1] for url in look.asked if url.endswith(".svg")]

    look.tab.mouse.wheel(0, 3000)
    look.tab.wait_for_timeout(300)
    assert pictures() == []
    look.tab.locator("#toy-iter5 .col-result").click()
    look.tab.wait_for_function(
        "document.querySelector('#toy-iter5 .lmsv-details img').naturalWidth > 0"
    )
    assert pictures() == ["toy-iter5.svg"]
    details = look.tab.locator("#toy-iter5 .lmsv-details").inner_text()
    for part in ("first differ in step 4", "attempt 1 was invalid", "repeat: pytest "):
        assert part in details
    look.tab.locator("#toy-iter5 .col-result").click()
    assert look.texts(".lmsv-details") == []


@wide
def test_a_failed_run_shows_its_root_error_in_its_log(look: Look) -> None:
    look.tab.locator("#toy-iter12 .col-lmsv_finding").click()
    details = look.tab.locator("#toy-iter12 .lmsv-details").inner_text()
    assert "MSA root error (rank 3, line 5 of msa_verify_iter12.log):" in details
    assert '\n    File "train.py", line 3\n> RuntimeError: Sync stream failed: device 3' in details


@wide
def test_a_number_of_a_class_opens_its_row(look: Look) -> None:
    look.tab.get_by_role("button", name="Memory").click()
    look.tab.locator(".lmsv-classes a").first.click()  # of accuracy: its row is filtered away
    look.tab.wait_for_function("location.hash === '#toy-iter3'")
    assert "accuracy NG" in look.texts(".lmsv-details")[0]
    assert len(look.shown()) == 12


@wide
def test_every_link_leads_to_a_file_of_the_campaign(look: Look, page_file: Path) -> None:
    links = look.tab.locator(".col-links a")
    found = [links.nth(n).get_attribute("href") or "" for n in range(links.count())]
    assert len(found) > 50
    for link in found:
        assert not urlsplit(link).scheme
        assert not link.startswith("/")
        assert (page_file.parent / unquote(link)).exists(), link
    assert any("frame" in link for link in found)


def test_nothing_that_was_written_by_others_runs(look: Look, page_file: Path) -> None:
    look.tab.get_by_text("Show all details").click()
    look.tab.wait_for_timeout(300)
    assert look.tab.title() == "toy: PTA against MSA"
    assert look.problems == []
    body = look.tab.locator("body").inner_text()
    # A finding, an edit's value, the environment's table and another test's id and output.
    assert body.count("<script>document.title='hacked'</script>") >= 5
    assert SCRIPT not in page_file.read_text("utf-8")
    assert not [url for url in look.asked if url.endswith("/x")]


@wide
def test_the_readme_shows_the_report(look: Look, screenshots: Path) -> None:
    """``LMSV_README_PICTURE=1`` writes the picture of the README anew."""
    look.tab.set_viewport_size({"width": 1270, "height": 840})
    look.tab.add_style_tag(content=".lmsv-overview section:last-child { display: none }")
    look.tab.get_by_role("button", name="Accuracy").click()
    look.tab.locator("#toy-iter3 .col-result").click()
    look.tab.wait_for_function("[...document.images].some((image) => image.naturalWidth > 0)")
    target = screenshots / "readme.png"
    look.tab.screenshot(path=target)
    if os.environ.get("LMSV_README_PICTURE") == "1":
        README_PICTURE.parent.mkdir(exist_ok=True)
        README_PICTURE.write_bytes(target.read_bytes())
    assert 0 < README_PICTURE.stat().st_size < 150_000
