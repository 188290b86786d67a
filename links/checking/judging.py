"""What a result changes of a URL's row: pure, for `links.checking.booking` to keep.

A finding goes through here exactly once. The states, the intervals and the history are those of
`links.states`, `links.schedule` and `links.history`.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from core.formats import format_name
from core.texts import storable
from links import history
from links.checking.due import URGENT_DAY
from links.findings import Finding, How, Verdict
from links.presets import PRESETS, Preset
from links.quirks import HostQuirk
from links.schedule import next_due
from links.states import Standing, State, after, needs_browser
from links.status import Code

OBSERVATIONS = 8  # single looks that are kept of a URL at most
_FAILURES = frozenset({Verdict.GONE, Verdict.FAILING})
_NOTE_LIMIT = 500
_FINAL_LIMIT = 16_384
_OPINION_DAYS = 3  # failures that old are still what a browser contradicts


class Settings(Protocol):
    """What people decided about single URLs."""

    def setting(self, url: str, key: str) -> str | None:
        """What a setting is for the URL; None when nobody decided."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What results are judged by.

    Attributes:
        preset: how much it takes.
        browser: whether there is a browser to ask.
        settings: what people decided otherwise for some URLs (A16); None: nothing.
    """

    preset: Preset
    browser: bool
    settings: "Settings | None" = None

    def of(self, url: str) -> "Rules":
        """The rules for that URL.

        Raises:
            TransientError: the registry does not answer.
        """
        if self.settings is None:
            return self
        name = self.settings.setting(url, "preset")
        days = self.settings.setting(url, "every_days")
        if name is None and days is None:
            return self
        # What a newer version wrote, or a hand, decides nothing.
        preset = PRESETS.get(name or "", self.preset)
        preset = replace(preset, trusts_tags=self.preset.trusts_tags)
        if days is not None and days.isdecimal() and 0 < len(days) < 4:
            preset = replace(preset, alive_days=int(days), first_days=0, spread_days=0)
        return replace(self, preset=preset)


class Kept(NamedTuple):
    """Of a URL's row, what a judgement needs."""

    key: bytes
    standing: Standing
    code: int
    history: bytes | None
    mime: str | None
    kib: int | None
    is_new: bool
    opinion_day: int | None
    due_day: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of the URL.

    Attributes:
        standing: where it stands.
        code: the byte of the last look.
        history: packed.
        mime: the short name of an unusual type; None for what every browser shows.
        kib: that type's length in KiB; None when it is not known.
        due_day: when it is due again; None: never.
        opinion_day: since when a browser's opinion is awaited; None: it is not.
        is_observed: whether the look itself is worth a row.
    """

    standing: Standing
    code: int
    history: bytes | None
    mime: str | None
    kib: int | None
    due_day: int | None
    opinion_day: int | None
    is_observed: bool


def told_by(finding: Finding, quirks: frozenset[HostQuirk], *, browser: bool) -> Finding:
    """The finding, for what it is worth at a host with these quirks.

    Where a browser has seen pages that we called failing, our failures say nothing, but that the
    browser has to look again.
    """
    is_ours = finding.how in (How.HEAD, How.GET, How.INFERRED)
    if not browser or not is_ours or HostQuirk.UNVERIFIABLE not in quirks:
        return finding
    if finding.verdict not in _FAILURES:
        return finding
    # An inference asks for nothing: the URL's own look will.
    verdict = Verdict.UNDECIDED if finding.how is How.INFERRED else Verdict.SUSPECT
    return replace(finding, verdict=verdict, note=f"unverifiable: {finding.note}")


def change_of(kept: Kept, finding: Finding, day: int, rules: Rules) -> Change:
    """What the finding changes.

    Args:
        kept: the URL as its row is now.
        finding: what was found, as `told_by` makes it.
        day: the day of the look.
        rules: what it is judged by.
    """
    now = after(kept.standing, finding, day, rules.preset, browser=rules.browser)
    due = next_due(kept.standing, now, finding, day, rules.preset, kept.key)
    asked = rules.browser and needs_browser(now, rules.preset, day)
    mime, kib = _format(kept, finding)
    code = finding.code
    return Change(
        standing=now,
        code=code if code != Code.NONE else kept.code,
        history=_history(kept.history, code, day),
        mime=mime,
        kib=kib,
        # Whatever was found, a pass that is going on must not meet it again.
        due_day=None if due is None else max(due, day + 1, URGENT_DAY + 1),
        opinion_day=(day if kept.opinion_day is None else kept.opinion_day) if asked else None,
        is_observed=(
            kept.is_new
            or finding.verdict is not Verdict.OK
            or now.state is not kept.standing.state
            or code != kept.code
        ),
    )


def is_contradicted(kept: Kept, finding: Finding, day: int) -> bool:
    """Whether a browser's finding would contradict failures that we saw just now."""
    last = kept.standing.last_fail
    return (
        finding.how is How.BROWSER
        and kept.standing.state in (State.DYING, State.DEAD)
        and last is not None
        and day - last <= _OPINION_DAYS
    )


def row_of(url_id: int, finding: Finding, moment: int) -> dict[str, object]:
    """The look itself, as a row of observations."""
    return {
        "url_id": url_id,
        "moment": moment,
        "how": int(finding.how),
        "code": finding.code,
        "verdict": str(finding.verdict),
        "http": finding.http if finding.http is not None and 0 <= finding.http <= 999 else None,
        "final_url": storable(finding.final_url[:_FINAL_LIMIT]),
        "note": storable(finding.note[:_NOTE_LIMIT]),
        "similarity": finding.similarity,
    }


def _history(packed: bytes | None, code: int, day: int) -> bytes | None:
    if code == Code.NONE:
        return packed
    return history.pack(history.add(history.unpack(packed), code, day))


def _format(kept: Kept, finding: Finding) -> tuple[str | None, int | None]:
    """The unusual type and its length (W57, W66); what a look does not tell stays as it was.

    GET names a type by the page's first bytes, HEAD by what the server says alone: so HEAD names one only
    where none is known, and neither changes nor clears one.
    """
    if finding.verdict is not Verdict.OK or not finding.mime or finding.how is How.BROWSER:
        return kept.mime, kept.kib
    name = format_name(finding.mime)
    if finding.how is How.HEAD and (kept.mime or name in ("", "binary")) and kept.mime != name:
        return kept.mime, kept.kib
    if not name:
        return None, None
    length = finding.length
    same = kept.kib if kept.mime == name else None
    return name, same if length is None else min(-(-length // 1024), 0x7FFFFFFF)
