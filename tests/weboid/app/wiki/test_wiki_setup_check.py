"""`weboid wiki check` on a watched wiki: what is well, what is not, and what to do next; its trial."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.commands import CommandResult
from tests.support.http_listener import HttpListener, ReceivedRequest, StubResponse
from tests.support.linked_site import LinkedSite
from tests.support.services.ports import free_port
from tests.support.tls_origins import DAY, NOW, TlsOrigin, server_context, write_leaf
from tests.support.wiki_deployment import WITHOUT_SIDE_PARTS, WikiDeployment, article, profile_of, running_deployment
from tests.support.wiki_writer import BOT, BOT_SECRET, make_bot

pytestmark = [pytest.mark.proxy, pytest.mark.playback, pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

HALL = article("The hall", "<p>It is large.</p>")
HALL_TEXT = "The hall.<ref>[http://museum.org/ The hall], seen.</ref> See http://site.org/."


@pytest.fixture(scope="module")
def deployment() -> Iterator[WikiDeployment]:
    """Yield a wiki that is added, with a front to whose copies its readers may be led."""
    with (
        LinkedSite({"site.org/": article("A site", "<p>x</p>"), "museum.org/": HALL}) as site,
        running_deployment([site]) as running,
    ):
        assert running.add().code == 0
        port = int(running.front.rpartition(":")[2])
        origins = f"$wgWeboidOrigins = [ '{running.front}', 'http://127.0.0.1:{port + 1}' ];"
        (running.wiki.folder / "settings.d" / "origins.php").write_text(f"<?php\n{origins}")
        yield running


def _checked(
    deployment: WikiDeployment, *options: str, profile: Path | None = None
) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    used = f"--profile={profile or deployment.weboid.profile}"
    ran = deployment.call("wiki", "check", used, "--json", *options)
    findings: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(ran.out)["findings"]:
        findings.setdefault(each["subject"], []).append(each)
    return ran.code, findings


class SetupRun(NamedTuple):
    """Output of the command while the wiki is watched."""

    code: int
    findings: dict[str, list[dict[str, Any]]]
    with_another_secret: tuple[int, dict[str, list[dict[str, Any]]]]
    text: str
    copy: dict[str, Any]  # of the link of the page "Hall"
    trial: CommandResult  # with the site of that link gone


@pytest.fixture(scope="module")
def while_watched(deployment: WikiDeployment) -> SetupRun:
    """Run the command during a watch, which has ended since."""
    other = deployment.weboid.folder / "other"
    other.write_text("another secret, as long as it must be")
    other.chmod(0o600)
    with deployment.watched(*WITHOUT_SIDE_PARTS):
        deployment.until("the front", lambda: deployment.cached("http://site.org/"))
        check = _checked(deployment)
        wrong = _checked(deployment, f"--webhook-secret-file={other}")
        text = deployment.call("wiki", "check", f"--profile={deployment.weboid.profile}").out
        deployment.writer.write("Hall", HALL_TEXT)
        (copy,) = deployment.until(
            "a copy", lambda: [each for each in deployment.cached("http://museum.org/") if each["copy"]]
        )
        # Its bot is a process of its own, which prints to the same output.
        trial = deployment.run("wiki", "trial", "--gone=museum.org", f"--profile={deployment.weboid.profile}")
    return SetupRun(*check, wrong, text, copy, trial)


def test_all_is_proved_in_one_command(while_watched: SetupRun) -> None:
    """While it is watched nothing is a problem; what is not configured says how it is."""
    code, findings, (wrong_code, wrong), lines, *_ = while_watched

    assert wrong_code == 1
    assert [each["health"] for each in wrong["webhook"]] == ["bad"]
    assert wrong["secret"][-1]["remedy"].startswith("Put the same secret")
    assert code == 0, [each for all_ in findings.values() for each in all_ if each["health"] == "bad"]
    healths = {name: {each["health"] for each in all_} for name, all_ in findings.items()}
    good = ("contact", "watch", "front", "replay", "secret", "webhook", "wiki", "clock", "origins")
    assert {name: healths[name] for name in (*good, "extension")} == {name: {"good"} for name in (*good, "extension")}
    assert {name: healths[name] for name in ("archives", "levels", "bot")} == {
        name: {"unset"} for name in ("archives", "levels", "bot")
    }
    assert all(each["remedy"] for name in ("archives", "levels", "bot") for each in findings[name])
    assert "accepted a signed test" in lines


def test_the_bots_edit_of_that_day_is_shown_and_not_made(while_watched: SetupRun, deployment: WikiDeployment) -> None:
    """While the wiki is watched: with our copy at the front's address; the bot of the trial has no account."""
    ran = while_watched.trial
    assert ran.code == 0, ran
    assert "dead after" in ran.out
    _, _, bot = ran.out.partition("The bot, 40 days from now:")
    added = [each for each in bot.splitlines() if each.strip().startswith("+The hall")]
    assert [while_watched.copy["href"] in each for each in added] == [True], ran
    parameters = {"prop": "revisions", "rvprop": "content", "rvslots": "main"}
    (page,) = deployment.writer.ask(action="query", titles="Hall", **parameters)["query"]["pages"]
    assert page["revisions"][0]["slots"]["main"]["content"] == HALL_TEXT


@pytest.mark.usefixtures("while_watched")
def test_what_is_away_is_said_with_the_next_step(deployment: WikiDeployment) -> None:
    """The addresses are those of the last watch."""
    code, findings = _checked(deployment)

    assert code == 1
    for name in ("front", "replay", "webhook", "watch"):
        (each,) = findings[name]
        assert each["health"] == "bad", each
        assert each["remedy"]
    assert deployment.front in findings["front"][0]["text"]


def test_a_certificate_that_does_not_verify_is_to_be_renewed(deployment: WikiDeployment, tmp_path: Path) -> None:
    """The front runs; starting it once more would not help."""
    write_leaf(tmp_path / "leaf.pem", "127.0.0.1", None, begins=NOW - 2 * DAY, ends=NOW - DAY)
    with closing(TlsOrigin(server_context(tmp_path / "leaf.pem"))) as origin:
        place = f"https://127.0.0.1:{origin.port}"
        _, findings = _checked(deployment, "--front", place, "--replay", place)

    for name in ("front", "replay"):
        assert "CERTIFICATE_VERIFY_FAILED" in findings[name][0]["text"]
        assert findings[name][0]["remedy"].startswith("Renew or correct the certificate")


def _archive(request: ReceivedRequest) -> StubResponse:
    """Answer as a Memento archive with two copies of one address and of no other (RFC 7089, 5)."""
    _, _, url = request.path.partition("/timemap/link/")
    if url != "https://example.com/":
        return StubResponse(404)
    place = f"http://{request.headers['host']}"
    lines = [f'<{url}>; rel="original"']
    for moment, stamp in (("01 Mar 2024", "20240301000000"), ("02 Mar 2025", "20250302000000")):
        when = f"{moment} 00:00:00 GMT"
        lines.append(f'<{place}/web/{stamp}/{url}>; rel="memento"; datetime="{when}"')
    kind = {"Content-Type": "application/link-format"}
    return StubResponse(body=",\n".join(lines).encode(), headers=kind)


def _profile(deployment: WikiDeployment, *archives: str) -> Path:
    """Return the deployment's profile with these archives."""
    path = deployment.weboid.folder / "archives.toml"
    given = {"host_gap_s": 0.1, "contact": "https://town.example.org/bot"}
    path.write_text(profile_of([], links={**given, "archives": list(archives)}))
    return path


def test_each_configured_archive_is_asked(deployment: WikiDeployment) -> None:
    """One that answers is well, with what it has; one that does not is a problem, with the next step."""
    nobody = f"127.0.0.1:{free_port()}"
    with HttpListener.running(_archive) as archive:
        there = archive.address.removeprefix("http://")
        names = [f"timemap http://{each}/timemap/link/{{url}}" for each in (there, nobody)]
        code, findings = _checked(deployment, profile=_profile(deployment, *names))

    assert code == 1
    reachable, away = findings["archives"]
    assert (reachable["health"], reachable["text"]) == ("good", f"{there} answers (2 copies of a test page)")
    assert away["health"] == "bad"
    assert away["text"].startswith(f"{nobody}: ")
    assert "[egress]" in away["remedy"]
    assert [each.path for each in archive.requests] == ["/timemap/link/https://example.com/"]


def test_an_archive_that_there_is_not_is_told(deployment: WikiDeployment) -> None:
    """With the names that there are."""
    code, findings = _checked(deployment, profile=_profile(deployment, "nowhere"))

    assert code == 1
    (each,) = findings["archives"]
    assert (each["health"], each["text"]) == ("bad", "cannot be opened")
    assert "wayback" in each["remedy"]


def _switch_on(deployment: WikiDeployment, *options: str) -> None:
    password = deployment.weboid.folder / "bot-password"
    password.write_text(BOT_SECRET)
    password.chmod(0o600)
    known = (f"--account={BOT}@weboid", f"--password-file={password}", f"--front={deployment.front}")
    done = deployment.call("wiki", "bot", "on", *known, f"--profile={deployment.weboid.profile}", *options)
    assert done.code == 0, done


def _bot(deployment: WikiDeployment, profile: Path | None = None) -> tuple[str, str, str]:
    (each,) = _checked(deployment, profile=profile)[1]["bot"]
    return each["health"], each["text"], each["remedy"]


@pytest.fixture
def town_with_bot(deployment: WikiDeployment) -> Iterator[WikiDeployment]:
    """Yield the deployment with its bot switched on; switch it off afterwards."""
    make_bot(deployment.wiki)
    _switch_on(deployment)
    yield deployment
    assert deployment.call("wiki", "bot", "off").code == 0


def test_a_bot_that_is_on_is_proved(town_with_bot: WikiDeployment) -> None:
    """That it logs in, may edit, has copies to cite, and that nobody has written to it."""
    deployment = town_with_bot
    assert _bot(deployment)[:2] == ("good", f"on, as {BOT}")

    deployment.writer.write(f"User talk:{BOT}", "Please stop.")
    assert _bot(deployment)[:2] == ("warn", f"on, as {BOT}; it has a new message")
    _switch_on(deployment, "--messages-read")

    response = deployment.writer.ask(action="query", meta="tokens", type="userrights")
    token = response["query"]["tokens"]["userrightstoken"]
    deployment.writer.ask(action="userrights", user=BOT, remove="bot", token=token)
    assert _bot(deployment)[:2] == ("good", f"on, as {BOT}, without the bot flag")

    deployment.writer.act(action="block", user=BOT, reason="a test")
    health, text, remedy = _bot(deployment)
    assert health == "bad"
    assert text.startswith(f"{BOT} is blocked")
    assert remedy.startswith("Ask the administrator who blocked it")
    deployment.writer.act(action="unblock", user=BOT)

    archives = _profile(deployment, "wayback")
    cites_others = deployment.call("wiki", "bot", "on", "--front=-", f"--profile={archives}")
    assert cites_others.code == 0, cites_others
    health, text, remedy = _bot(deployment)
    assert (health, text) == ("bad", "it has no copies to cite")
    assert "--front ORIGIN" in remedy

    (deployment.weboid.folder / "bot-password").write_text("another")
    assert _bot(deployment)[:2] == ("bad", "cannot log in")
