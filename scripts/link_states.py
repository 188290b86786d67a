"""docs/reference/link-states.md, made from the tables that the link registry decides by."""

import inspect
import re
from collections.abc import Iterator

from links import states
from links.check_result import CheckVerdict, StatusCode
from links.states import PRESETS, TRANSITIONS, CheckPreset, LinkState, TransitionRule

_HEAD = """\
# States of a link

Made from `links/states.py` and `links/check_result.py` by `python -m scripts.reference`.
[When a link is dead](../explanation/when-a-link-is-dead.md) explains the rules.

A state depends on the history of checks, never on a single check. Each check has a verdict; the table lists
the transition, and the preset the number of failures and days after which a link is dead.

- One successful check resets the count. States set by the browser alone (a new owner of the domain, changed
  content, an error page with status 200) are reset by the browser alone.
- A refused check is no evidence: a blocked link is never dead unless every check says that the page is gone.
- A suspicious answer (`suspect`: a redirect to the home page, a text about an error) is not counted as a
  failure; the browser checks it.
- If a URL fails in a way that applies to its whole host, the same verdict is inferred for the host's other
  URLs without a request. An inferred failure can only be the first of a series, and never the last: the
  link's own next check confirms or cancels it, so that one outage never completes a count.
- With a preset that uses the browser, no link is dead before it failed in the browser.
- Marks of people override every check, and marked links are not checked. A wiki's own "dead link" tag counts
  only with `[links] trust_tags`: the link's first failure is then the last, and a link marked `permalive` is
  checked as long as a page tags it. Tags written by our own bot are no evidence.
"""
_TARGETS = {
    TransitionRule.CLEAR: LinkState.ALIVE,
    TransitionRule.COUNT: LinkState.DYING,
    TransitionRule.BLOCK: LinkState.BLOCKED,
    TransitionRule.USURP: LinkState.USURPED,
    TransitionRule.DEVIATE: LinkState.DEVIATED,
    TransitionRule.VOID: LinkState.INVALID,
}
_BY_BROWSER = (TransitionRule.SEEN, TransitionRule.USURP, TransitionRule.DEVIATE)
_FALSE = """\
## False statuses

The status of an error is compared with its body, so that neither a wrong status makes a page dead nor a large
error page counts as a page:

| body of a 404, 410, 400 or 5xx | verdict | reason |
|---|---|---|
| a document, recording or container of 4 KiB or more; declared type and first bytes agree | 7, ok | errors are not sent in such types; a smaller one may be one line, "not found" |
| … only one of the two agrees | 7, suspect | the browser checks; nothing is counted |
| a plain text over 64 KiB with 4xx | 7, suspect | error texts are short |
| any body over 128 KiB with 5xx | 7, suspect | pages of failing servers are small |
| a page, picture, text or data of any length with 404 or 410 | gone | sites send whole pages, and pictures, with a correct 404 |
| any body with 401, 403, 429 and similar | that of the status | a refusal may have any body |

The bytes 19 and 20 are always checked by the browser.
"""


def page() -> str:
    """Return the whole page as Markdown."""
    parts = [
        _HEAD,
        "![States of a link and their transitions](../pictures/link-states.svg)",
        "",
        *_meanings(),
        *_table(),
        *_presets(),
        *_bytes(),
        _FALSE.rstrip("\n"),
    ]
    return "\n".join(parts) + "\n"


def edges() -> Iterator[tuple[LinkState, LinkState, str]]:
    """Return the transitions between states, with their verdicts."""
    for (state, verdict), rule in TRANSITIONS.items():
        target = _TARGETS.get(rule)
        words = str(verdict)
        if rule is TransitionRule.SEEN:
            target = LinkState.ALIVE if verdict is CheckVerdict.OK else LinkState.DYING
        if rule in _BY_BROWSER:
            words += " by the browser"
        if state is LinkState.DYING and rule is TransitionRule.COUNT:
            target, words = LinkState.DEAD, f"{words}, at the threshold"
        if state is LinkState.DEAD and rule is TransitionRule.COUNT:
            target = None
        if target is not None and target is not state:
            yield state, target, words


def _meanings() -> list[str]:
    source = inspect.getsource(states.LinkState)
    rows = re.findall(r"^    (\w+) = (\d+)(?:  # (.+))?$", source, re.MULTILINE)
    above = {
        "ALIVE": "it works",
        "DEAD": "it failed as often, and for as long, as the preset requires",
        "PERMADEAD": "marked as dead by a person; not checked",
    }
    lines = ["## States", "", "| number | state | meaning |", "|---|---|---|"]
    return [*lines, *(f"| {number} | `{name}` | {why or above[name]} |" for name, number, why in rows), ""]


def _table() -> list[str]:
    lines = [
        "## Transitions by the verdict of a check",
        "",
        "| state | " + " | ".join(verdict.value for verdict in CheckVerdict) + " |",
        "|---" * (len(CheckVerdict) + 1) + "|",
    ]
    for state in LinkState:
        cells = [TRANSITIONS[state, verdict].name.lower() for verdict in CheckVerdict]
        lines.append(f"| `{state.name}` | " + " | ".join(cells) + " |")
    lines += ["", "| rule | effect |", "|---|---|"]
    return [*lines, *(f"| {rule.name.lower()} | {rule.value} |" for rule in TransitionRule), ""]


def _presets() -> list[str]:
    lines = ["## Presets", "", "`[links] preset` of a profile. Days are calendar days, UTC.", ""]
    lines += ["| | " + " | ".join(f"`{name}`" for name in PRESETS) + " |", "|---" * 4 + "|"]
    for words, read in _PRESET_ROWS:
        lines.append(f"| {words} | " + " | ".join(read(preset) for preset in PRESETS.values()) + " |")
    return [*lines, "", _toll_words(), ""]


def _toll_words() -> str:
    return (
        "Why 18 days: an outage of two weeks spans 14 days, and 17 with an unrelated failure three days before"
        " it. If a host disappears on the day after a check, its first failure is at most 8 days later, so its"
        " links are dead 26 days after it disappeared. Names that do not resolve count as temporary failures,"
        " since domains lapse and are renewed."
    )


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _spread(preset: CheckPreset, days: int) -> str:
    return f"{days} or {days + preset.spread_days} days" if preset.spread_days else f"{days} days"


def _dead(preset: CheckPreset) -> str:
    if not preset.dead_growth:
        return f"{preset.dead_days} days"
    return f"{preset.dead_days} days, {preset.dead_growth} more each time, {preset.dead_limit_days} at most"


_PRESET_ROWS = (
    ("dead, if every failure is *gone*", lambda p: f"{p.sure.fails} failures, {p.sure.days} days"),
    ("dead, if a failure may be temporary", lambda p: f"{p.passing.fails} failures, {p.passing.days} days"),
    ("minimum time between counted failures", lambda p: f"{p.apart_days} days"),
    ("one of the failures must be by GET", lambda p: _yes(p.needs_get)),
    ("the last failure must be in the browser, if there is one", lambda p: _yes(p.needs_browser)),
    ("next check after a successful one", lambda p: _spread(p, p.alive_days)),
    ("… after the first successful one", lambda p: f"1 to {p.first_days} days" if p.first_days else "the same"),
    ("… after a failure", lambda p: f"{p.failing_days} days"),
    ("… after an undecided one", lambda p: f"{p.undecided_days} days, or when the host says"),
    ("… when dead", _dead),
    ("… when blocked", lambda p: _spread(p, p.blocked_days)),
    ("… when usurped or deviated", lambda p: _spread(p, p.seldom_days)),
)


def _bytes() -> list[str]:
    lines = [
        "## The status byte",
        "",
        "The registry stores the result of a check as one byte. *HTTP* lists the statuses that a byte stands for,",
        "*reported* the status that APIs return for it. After a redirect to a working page, the byte is that of",
        "the redirect. 511 counts as a failure of our own network, since it is sent by a portal in that network.",
        "",
        "| byte | HTTP | verdict | reported | meaning |",
        "|---|---|---|---|---|",
    ]
    for code in StatusCode:
        outward = str(code.outward or "-")
        lines.append(f"| {int(code)} | {code.statuses or '-'} | {code.verdict} | {outward} | {code.words} |")
    return [*lines, ""]
