"""Every screen: it draws itself, in both colour schemes, on a desk and on a phone."""

from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from examples.demo_dashboard.pictures import SCREENS, Scheme, Seen, open_page, show, write
from hourhand.scheduler.cli.http_running import AdminRunning
from tests.browser.looking import Looking

pytestmark = pytest.mark.browser
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
SAME_LATENESS = """
() => {
  const named = (place) => [...document.querySelectorAll(place)]
    .find((each) => each.innerText.includes("p99.9"));
  const [tile, told] = [named(".tile"), named(".legend > span")];
  const bare = (text) => text.replace(/\\s/g, "");
  return bare(told.querySelector("b").innerText) === bare(tile.querySelector(".figure").innerText);
}
"""
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize(("scheme", "phone"), [("light", False), ("dark", False), ("dark", True)])
def test_every_screen_draws_itself(
    browser: Browser, running: AdminRunning, scheme: Scheme, phone: bool
) -> None:
    """Without a complaint, without asking anybody else, and no wider than the window."""
    seen = Seen([], set())
    with open_page(browser, running.address, scheme, seen, phone=phone) as page:
        for name, place in SCREENS.items():
            show(page, running.address, place)
            assert page.locator(".top h1").inner_text()
            assert page.locator(".places [aria-current=page]").count() == 1, name
            assert page.evaluate(TOO_WIDE) <= 0, f"{name} is wider than the window"
            assert page.locator(".content [role=alert]").count() == 0, name

    assert seen.errors == []
    assert seen.hosts == {running.address.split("/")[2]}


def test_light_and_dark_differ_and_can_be_chosen(looking: Looking) -> None:
    """As the machine says, unless somebody chose; a choice is kept."""
    page = looking.page
    light = page.evaluate(BACKGROUND)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(BACKGROUND)
    assert light != dark

    looking.open("settings")
    looking.press("Light")
    assert page.evaluate(BACKGROUND) == light
    page.reload()
    page.locator(".pulse[data-state=live]").wait_for()
    assert page.evaluate(BACKGROUND) == light


def test_now_answers_in_a_sentence(looking: Looking) -> None:
    """And says how many nodes are alive."""
    looking.open("now")
    verdict = looking.page.locator(".verdict")

    verdict.get_by_text("1 node alive").wait_for()
    assert looking.page.locator(".tile").count() == 10
    assert looking.page.locator(".owner .cell").count() == looking.running.service.partition_count


def test_a_tile_and_the_chart_beside_it_say_the_same(looking: Looking) -> None:
    """And what of: the last seconds, or now."""
    looking.schedule("agrees", in_s=0.2)
    looking.open("now")
    tile = looking.page.locator(".tile", has_text="Lateness p99.9")
    looking.until(lambda: "≤" in tile.locator(".figure").inner_text())

    assert "last 10" in tile.locator("h2").inner_text()
    assert "now" in looking.page.locator(".tile", has_text="Blocked").locator("h2").inner_text()
    looking.until(lambda: looking.page.evaluate(SAME_LATENESS))


def test_what_is_blocked_stands_out_on_the_bucket_map_and_at_its_partition(
    looking: Looking,
) -> None:
    """It is neither pending nor done, and it does not run."""
    key = looking.block("mapped-as-blocked")
    looking.open("buckets")
    looking.until(lambda: looking.page.locator(".legend b").first.inner_text() != "0")

    looking.open("nodes")
    row = looking.page.locator("tbody tr").nth(
        looking.running.service.inspector.show(key).partition
    )
    cell = row.locator("td[data-name=blocked]")
    looking.until(lambda: int(cell.inner_text()) >= 1)
    assert row.locator("td[data-name=running]").inner_text() == "0"


def test_services_that_keep_nothing_have_no_place_in_the_navigation(looking: Looking) -> None:
    """Their address still opens them."""
    looking.open("now")
    link = looking.page.locator(".places [data-path=relay]")
    link.wait_for(state="hidden")

    looking.open("relay")
    link.wait_for(state="visible")


def test_times_name_their_zone_which_can_be_switched(looking: Looking) -> None:
    """On every screen, and the choice is kept."""
    looking.open("activity")
    button = looking.page.get_by_title("Switch between UTC")
    assert button.inner_text() == "UTC"
    assert looking.page.locator("th", has_text="When, UTC").count() == 1

    button.click()
    assert looking.page.evaluate("localStorage.getItem('hourhand-utc')") == "no"


def test_what_lies_ahead_is_drawn_and_opens_its_tasks(looking: Looking) -> None:
    """Counted as it is stored; the busiest minute leads to its tasks."""
    # More than other tests have due in one minute, also where these fall into two.
    for number in range(20):
        looking.schedule("ahead", f"{number}", in_s=600)
    looking.open("ahead")
    row = looking.page.locator("table[aria-label=Busiest] tbody tr").first
    row.wait_for()
    assert looking.page.locator(".chart canvas").count() >= 1

    row.click()
    looking.row("ahead").first.wait_for()
    assert "from=" in looking.page.url


@pytest.mark.parametrize("word", ["Hours", "Days"])
def test_the_future_is_shown_by_other_units(looking: Looking, word: str) -> None:
    """And the address says which."""
    looking.open("ahead")
    looking.press(word)
    looking.page.get_by_text(
        f"in the next {'72 hours' if word == 'Hours' else '30 days'}"
    ).wait_for()

    assert f"unit={word[:-1].lower()}" in looking.page.url


def test_the_bucket_map_opens_the_tasks_of_a_cell(looking: Looking) -> None:
    """By mouse, and by arrow keys and Enter."""
    key = looking.schedule("mapped", in_s=60)
    looking.open("buckets")
    canvas = looking.page.locator(".grid-room canvas")
    looking.page.locator(".legend", has_text="pending").wait_for()
    partition = looking.running.service.inspector.show(key).partition
    canvas.focus()
    looking.until(lambda: looking.page.locator(".legend b").nth(2).inner_text() != "0")
    for _ in range(partition):
        canvas.press("ArrowDown")
    canvas.press("ArrowRight")
    canvas.press("ArrowLeft")
    tip = looking.page.locator(".tip")
    assert f"Partition {partition}" in tip.inner_text()
    canvas.press("Enter")
    looking.page.locator(".table-foot").wait_for()
    assert f"partition={partition}" in looking.page.url


def test_lateness_is_shown_of_one_partition(looking: Looking) -> None:
    """On a click; the address says which."""
    looking.open("lateness")
    looking.page.locator(".chip", has_text="3").first.click()

    looking.until(lambda: "partition=3" in looking.page.url)
    assert looking.page.locator(".chip[aria-pressed=true]").inner_text() == "3"


def test_a_task_is_shown_with_its_data_and_what_happened(looking: Looking) -> None:
    """Attempts with errors and traces, from top to bottom."""
    key = looking.block("shown")
    looking.open("task", key=str(key))
    page = looking.page

    page.locator(".pill", has_text="blocked").wait_for()
    assert page.locator(".timeline li", has_text="Attempt 3: failed").count() == 1
    assert "BillingUnavailable" in page.locator(".timeline").inner_text()
    trace = page.locator("details.trace").first
    trace.locator("summary").click()
    assert "Traceback" in trace.locator("pre").inner_text()
    assert '"fails"' in page.locator("pre.code").last.inner_text()


def test_hostile_text_stays_text(looking: Looking) -> None:
    """Whatever a task is called and holds, it is something to read."""
    bad = "<img src=x onerror=alert(1)>"
    key = looking.schedule(bad, bad, note=bad)
    looking.open("task", key=str(key))

    looking.page.locator("h2", has_text=bad).wait_for()
    assert looking.page.locator(".content img").count() == 0


@pytest.mark.parametrize(
    ("key", "said"),
    [("nonsense", "This could not be shown"), ("2030-01-01T00:00:00Z,a,b", "No such task")],
)
def test_a_key_that_is_unknown_is_said_to_be(
    browser: Browser, running: AdminRunning, key: str, said: str
) -> None:
    """Not an empty page; the words are the API's own."""
    seen = Seen([], set())
    with open_page(browser, running.address, "light", seen) as page:
        page.goto(f"{running.address}/#/task?key={quote(key)}")
        page.get_by_text(said).wait_for()

    # A browser logs each answer that is a refusal, whatever the page makes of it.
    assert [each for each in seen.errors if "Failed to load resource" not in each] == []


def test_a_picture_is_written(
    page: Page, running: AdminRunning, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As the demonstration writes those of the documentation."""
    path = tmp_path_factory.mktemp("pictures") / "now.webp"
    show(page, running.address, "now")

    assert write(page, path) == path.stat().st_size > 5_000
    assert path.read_bytes()[8:12] == b"WEBP"
