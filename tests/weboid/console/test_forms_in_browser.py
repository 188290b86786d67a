"""Each act of the console, by its button in a real browser: what it changes, and what the page says."""

import json

import pytest

from core.layout import CONFIG_FILE
from crawler.frontier.base import JOB_ORDER, POLICY_ORDER, STOP_ORDER, ItemState, Lane
from crawler.policy.policy_entries import read_entries
from links.checker.due_urls import URGENT_DAY
from links.feedback.marks import read_marks
from links.registry.bot_edits import EditState
from links.registry.lookups import list_urls
from playback.access.takedowns import list_takedowns
from tests.support.browser_screen import BrowserScreen, module_screen  # noqa: F401 fixture
from tests.support.console_server import ServedConsole
from tests.weboid.console.sample_collection import STORY

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
SAID = "document.querySelector('.said').textContent"


async def press(screen: BrowserScreen, button: str, **fields: str) -> str:
    """Fill in fields by their ids, press the button of the selector, and return the message of the next page."""
    await screen.value(f"""(() => {{
        window.confirm = () => true;
        window.old = true;
        for (const each of document.querySelectorAll('details')) each.open = true;
        for (const [id, value] of Object.entries({json.dumps(fields)})) document.getElementById(id).value = value;
        document.querySelector({json.dumps(button)}).click();
    }})()""")
    await screen.value("""new Promise(done => {
        const look = () => document.readyState === 'complete' && !window.old ? done(true) : setTimeout(look, 10);
        look();
    })""")
    return str(await screen.value(SAID))


def act(name: str, more: str = "") -> str:
    """Return the selector of the button of an operation's form."""
    return f"form[action='/do/{name}']{more} button"


async def test_the_crawl_is_paused_resumed_and_stopped(console: ServedConsole, screen: BrowserScreen) -> None:
    """Each button is there when it can be pressed."""
    await console.show(screen, "/crawl")
    paused = await press(screen, act("pause_crawl"))
    why = console.frontier.stats(console.stores.clock.now()).paused
    resumed = await press(screen, act("resume_crawl"))
    stopped = await press(screen, act("stop_crawl"))
    orders = console.frontier.orders(STOP_ORDER)
    await press(screen, act("resume_crawl"))

    assert paused == "The crawl is paused; pages in progress finish."
    assert why
    assert resumed == "The crawl continues."
    assert stopped == "The crawl stops after the pages in progress."
    assert orders == {"": ""}
    assert console.frontier.orders(STOP_ORDER) == {}


async def test_a_host_is_paused_and_resumed(console: ServedConsole, screen: BrowserScreen) -> None:
    """The row's own button."""
    now = console.stores.clock.now()
    row = ":has(input[value='journal.example'])"
    await console.show(screen, "/crawl")
    await press(screen, act("pause_host", row))
    paused = console.frontier.host("journal.example", now=now)
    shown = await screen.value(f"document.querySelector(`tr{row}`).textContent")
    message = await press(screen, act("resume_host", row))
    resumed = console.frontier.host("journal.example", now=now)

    assert paused is not None
    assert paused.blocked_until is not None
    assert "Blocked until it is resumed" in shown
    assert message == "The host may be visited again."
    assert resumed is not None
    assert resumed.blocked_until is None


async def test_items_are_retried_moved_and_removed(console: ServedConsole, screen: BrowserScreen) -> None:
    """A failed one is queued again; a waiting one goes first, or away."""
    dead = console.frontier.ls(ItemState.DEAD, limit=1)[0].item.url
    await console.show(screen, "/crawl/queue?state=dead")
    await press(screen, act("retry_items", f":has(input[value='{dead}'])"))
    retried = console.frontier.find(dead)
    await console.show(screen, "/crawl/queue?host=refuses.example")
    await press(screen, act("move_items", ":has(input[value='https://refuses.example/3'])"))
    await press(screen, act("drop_items", ":has(input[value='https://refuses.example/4'])"))
    moved, dropped = console.frontier.find_all(["https://refuses.example/3", "https://refuses.example/4"])

    assert retried is not None
    assert retried.state is ItemState.QUEUED
    assert moved is not None
    assert moved.item.lane is Lane.NOW
    assert dropped is not None
    assert (dropped.state, dropped.outcome) == (ItemState.SKIPPED, "removed in the console")


async def test_a_crawl_is_estimated_and_started(console: ServedConsole, screen: BrowserScreen) -> None:
    """The form keeps its values between both steps."""
    await console.show(screen, "/crawl/new")
    await press_without_message(screen, "form.fields button.quiet")
    message = await press(screen, "button[formaction$='create_crawl']")

    job = console.frontier.orders(JOB_ORDER)["from-the-console"]
    assert message == "The crawl has been queued."
    assert json.loads(job)["seeds"] == ["https://new.example/docs/a"]
    assert console.frontier.find("https://new.example/docs/a") is not None


async def test_limits_of_a_crawl_are_changed(console: ServedConsole, screen: BrowserScreen) -> None:
    """Limits that are left empty do not change."""
    await console.show(screen, "/crawl/job?name=council-2026")
    message = await press(screen, act("change_limits"), pages="500", lane="high")
    after = await screen.value("document.querySelector('dl.source').textContent")
    findings = await screen.findings()
    await press(screen, act("change_limits"), pages="0", lane="standard")

    job = json.loads(console.frontier.orders(JOB_ORDER)["council-2026"])
    assert message == "The limits have been changed."
    assert "Pages at most500" in after
    assert "before others" in after
    assert findings == []
    assert job["lane"] == "standard"


async def press_without_message(screen: BrowserScreen, button: str) -> None:
    """Fill in the form of a crawl, and ask for its estimate."""
    await screen.value(f"""(() => {{
        window.old = true;
        const values = {{urls: 'https://new.example/docs/a', scope: 'prefix', page_limit: '30', name: 'from-the-console'}};
        for (const [id, value] of Object.entries(values)) document.getElementById(id).value = value;
        document.querySelector({json.dumps(button)}).click();
    }})()""")
    await screen.value("""new Promise(done => {
        const look = () => document.querySelector('.estimate') && !window.old ? done(true) : setTimeout(look, 10);
        look();
    })""")


async def test_a_capture_is_made_again_taken_down_and_shown_again(
    console: ServedConsole, screen: BrowserScreen
) -> None:
    """The take-down has the curator's name and reason; the rule page lifts it."""
    page_id = console.page_ids(STORY)[0]
    await console.show(screen, f"/captures/{page_id}")
    saved = await press(screen, act("save_capture"))
    item = console.frontier.find(STORY)
    await press(screen, act("set_level"), level="text", why="Large pictures")
    level = console.stores.levels.now().of(STORY)
    await press(screen, act("add_takedown"), kind="url", reason="Names a minor", ticket="RT-9")
    made = list_takedowns(console.stores.decisions)[-1]
    await console.show(screen, "/rules")
    lifted = await press(screen, act("lift_takedown", f":has(input[value='{made.number}'])"))

    assert saved == "The page will be captured."
    assert item is not None
    assert item.item.lane is Lane.NOW
    assert level == "text"
    assert (made.what, made.actor, made.reason, made.ticket) == (STORY, "Olu", "Names a minor", "RT-9")
    assert lifted == "The take-down has been lifted."
    assert list_takedowns(console.stores.decisions)[-1].lifted_at is not None


async def test_what_readers_see_is_undone_where_it_was_decided(console: ServedConsole, screen: BrowserScreen) -> None:
    """A level and a take-down, on the page of the capture."""
    await console.show(screen, f"/captures/{console.page_ids(STORY)[0]}")
    await press(screen, act("set_level", ".fields"), level="text")
    await press(screen, act("add_takedown"), kind="capture", reason="Names a minor")
    removed = await press(screen, act("set_level", ".act"))
    shown = await screen.value("document.body.textContent.includes('Taken down: Names a minor')")
    lifted = await press(screen, act("lift_takedown"))

    assert (removed, shown, lifted) == ("The level has been set.", True, "The take-down has been lifted.")
    assert console.stores.levels.now().of(STORY) == "images"
    assert list_takedowns(console.stores.decisions)[-1].lifted_at is not None


async def test_sites_are_taken_down_and_get_levels_on_the_page_of_rules(
    console: ServedConsole, screen: BrowserScreen
) -> None:
    """Also those without a capture."""
    await console.show(screen, "/rules")
    down = await press(
        screen, act("add_takedown"), url="https://new.example/", **{"down-kind": "host", "down-reason": "x"}
    )
    made = list_takedowns(console.stores.decisions)[-1]
    await press(screen, act("lift_takedown"))
    level = await press(screen, act("set_level", ".fields"), domain="new.example", level="html")
    now = console.stores.levels.now().of("https://www.new.example/a")
    await press(screen, act("set_level", ".act"))  # the newest is the first

    assert (down, made.kind, made.what) == ("The content has been taken down.", "host", "new.example")
    assert (level, now) == ("The level has been set.", "html")
    assert console.stores.levels.now().of("https://www.new.example/a") == "images"


async def test_a_rule_is_added_and_removed(console: ServedConsole, screen: BrowserScreen) -> None:
    """Workers follow it as one of the command line."""
    await console.show(screen, "/rules")
    await press(screen, act("add_policy"), pattern="*.ads.example", reason="Advertisements")
    entries = read_entries(console.frontier.orders(POLICY_ORDER)).by_id
    message = await press(screen, act("remove_policy"))

    assert [(each.pattern, each.actor) for each in entries.values()] == [("*.ads.example", "Olu")]
    assert message == "The rule has been removed."
    assert console.frontier.orders(POLICY_ORDER) == {}


async def test_many_links_are_marked_at_once(console: ServedConsole, screen: BrowserScreen) -> None:
    """Those whose boxes are ticked, with one reason."""
    await console.show(screen, "/links?q=council.example")
    await screen.value("document.querySelector('[data-all]').click()")
    message = await press(screen, ".bulk button", kind="permadead", why="The site has moved")
    with console.stores.registry.store().reading() as rows:
        marks = read_marks(rows, with_lifted=True)

    assert message == "The links have been marked."
    assert len(marks) == 12
    assert {(mark.kind, mark.reason, mark.actor) for mark in marks} == {("permadead", "The site has moved", "Olu")}
    assert "Marked as dead" in console.get("/links", q="council.example").text
    await console.show(screen, "/links")
    assert await screen.value("document.querySelectorAll('[aria-labelledby=marks] tbody tr').length") == 12
    assert await screen.findings() == []


async def test_many_links_are_checked_next(console: ServedConsole, screen: BrowserScreen) -> None:
    """Those whose boxes are ticked, without a reason; or all of the host."""

    def urgent(host: str) -> int:
        with console.stores.registry.store().reading() as rows:
            return sum(row.due_day == URGENT_DAY for row in list_urls(rows, limit=100, host=host))

    console.role = "reviewer"
    await console.show(screen, "/links?q=library.example")
    await screen.value("[...document.querySelectorAll('[name=url]')].slice(0, 3).forEach(each => each.click())")
    chosen = await press(screen, ".bulk button[formaction]")
    first = urgent("library.example")
    console.role = "curator"
    await console.show(screen, "/links?q=museum.example")
    await screen.value("[...document.querySelectorAll('[name=url]')].slice(0, 2).forEach(each => each.click())")
    await press(screen, ".bulk button[formaction]")
    second = urgent("museum.example")
    whole = await press(screen, act("check_links"))

    assert chosen == whole == "The links are checked next."
    assert (first, second) == (3, 2)
    assert urgent("museum.example") == 12


async def test_a_reverted_edit_is_reviewed(console: ServedConsole, screen: BrowserScreen) -> None:
    """The revert was right: the bot does not repeat it."""
    await console.show(screen, "/bot?state=REVERTED")
    message = await press(screen, act("review_edit", ":has(input[value='accept'])"))

    assert message == "The review has been stored."
    assert "Reverted by Marta" in console.get("/bot", state=EditState.ACCEPTED.name).text


async def test_a_refused_act_says_why_and_leads_back(console: ServedConsole, screen: BrowserScreen) -> None:
    """A pattern that is none; the page of the error has the navigation."""
    await console.show(screen, "/rules")
    message = await press(screen, act("add_policy"), pattern="re:(", reason="x")

    assert "not a regular expression" in message
    assert await screen.value("document.querySelector('main .button').getAttribute('href')") == "/console/rules"
    assert console.frontier.orders(POLICY_ORDER) == {}


async def test_an_old_form_changes_nothing(console: ServedConsole, screen: BrowserScreen) -> None:
    """Its session has ended: the form's token is that of another one."""
    await console.show(screen, "/crawl")
    await screen.value("for (const each of document.querySelectorAll('[name=csrf]')) each.value = 'x'")
    message = await press(screen, act("pause_crawl"))

    assert "too old" in message
    assert console.frontier.stats(console.stores.clock.now()).paused is None


async def test_settings_are_edited(console: ServedConsole, screen: BrowserScreen) -> None:
    """A text with an error stays in the form until it is corrected; in German, too."""
    path = console.layout.root / CONFIG_FILE
    path.write_text("# ours\n[visit]\ntimeout_s = 90\n")
    console.role = "admin"
    try:
        await console.show(screen, "/de/console/settings")
        assert await screen.findings() == []
        wrong = await press(screen, "form.fields button", text="# ours\n[visit]\ntimeout_s = 'long'\n")
        draft = await screen.value("document.getElementById('text').value")
        assert await screen.findings() == []
        saved = await press(screen, "form.fields button", text="# ours\n[visit]\ntimeout_s = 120\n")
        assert path.read_text() == "# ours\n[visit]\ntimeout_s = 120\n"
    finally:
        path.unlink()

    assert f"{path}, line 3" in wrong
    assert "'long'" in draft
    assert saved == "Gespeichert. Die Änderung gilt nach dem nächsten Start der Prozesse."
    assert await screen.value("document.getElementById('text').value") == "# ours\n[visit]\ntimeout_s = 120\n"
