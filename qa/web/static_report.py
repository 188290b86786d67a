"""Report of checks as one self-contained HTML file.

All content from the web is JSON in ASCII without ``<``, so that no title, URL or reason can end its element; the script
sets it as text. The content security policy allows the file's own style and scripts by their digests, and pictures from
``data:`` alone. Rows are written as they are read: memory is bounded by the strings that rows share.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, TextIO

from markupsafe import Markup
from starlette.exceptions import HTTPException

from core.playback_check import PICTURES, QaVerdict
from core.storable_text import replace_invisible
from core.timestamps import parse_warc_date, unix_milliseconds
from links.registry.schema import FAULT_BITS
from playback.access.levels import Level
from playback.web.i18n import noop, page_language, translate
from playback.web.page_renderer import HERE, PageRenderer
from playback.web.page_store import CapturedPage
from qa.check_table import REPAIR_STATES, VERDICT_ORDER, CheckedPage
from qa.web import check_presentation
from qa.web.check_presentation import CheckPictureFolder, make_thumbnail
from qa.web.check_query import VisibleCheck

MOST_LOST = 20  # named for a result with pictures
MOST_PICTURE_BYTES = 3_000_000
_FEWER_LOST = 3  # for one without
_SMALL_KINDS = ("seen", "shown")
_STYLES = (HERE / "static" / "style.css", HERE / "static" / "quality.css")
_SCRIPTS = (HERE / "static" / "quality.js", Path(__file__).with_name("file.js"))


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Description of a report."""

    title: str
    made_at: datetime
    origin: str = ""  # the server's origin, for links to copies; empty: no links
    with_pictures: int = 200  # number of leading results whose pictures are embedded


def write_report(
    report: CheckReport,
    results: Iterable[VisibleCheck],
    out: TextIO,
    *,
    pictures: CheckPictureFolder,
    shows_pictures: Callable[[CapturedPage], bool],
) -> int:
    """Write the report; return the number of results."""
    style = "\n".join(path.read_text() for path in _STYLES)
    scripts = [path.read_text() for path in _SCRIPTS]
    allowed = " ".join(_digest(each) for each in scripts)
    policy = (
        f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {allowed};"
        " base-uri 'none'; form-action 'none'"
    )
    choices = check_presentation.choices()
    # Rows hold the numbers of faults.
    choices["faults"] = [(str(bit), text) for bit, (_, text) in enumerate(choices["faults"])]
    page = PageRenderer("", mount_links=list, links_address=str)(
        "quality/file.html",
        title=replace_invisible(report.title),
        made_at=report.made_at,
        style=Markup(style),  # noqa: S704 our own
        policy=policy,
        words=check_presentation,
        filters={},
        **choices,
    )
    out.write(bytes(page.body).decode())
    strings: dict[str, int] = {}  # that rows share, each stored once, with its place
    count = 0
    pictured: list[VisibleCheck] = []
    out.write('<script type="application/json" id="rows">[')
    for count, result in enumerate(results, 1):
        place, check = -1, result.row.check
        has_pictures = (
            count <= report.with_pictures and shows_pictures(result.page) and pictures.kinds(check.page_id, check.level)
        )
        if has_pictures:
            place = len(pictured)
            pictured.append(result)
        out.write(("," if count > 1 else "") + "\n" + _json(_row(result.row, strings, place)))
    out.write("]</script>\n")
    out.write(_data("strings", list(strings)) + _data("words", _words(report)))
    out.writelines(f"<script>{each}</script>\n" for each in scripts)
    for (place, result), kind in product(enumerate(pictured), PICTURES):
        check = result.row.check
        try:
            body = pictures.whole(check.page_id, check.level, kind)
            small = make_thumbnail(body) if kind in _SMALL_KINDS else b""
        except HTTPException:  # it was deleted in the meantime, or is damaged
            continue
        if len(body) <= MOST_PICTURE_BYTES:
            out.write(_picture(f"p{place}-{kind}", body))
        if small:
            out.write(_picture(f"p{place}-{kind}-small", small))
    out.write("</body>\n</html>\n")
    return count


def _row(row: CheckedPage, strings: dict[str, int], place: int) -> list[Any]:
    """Return the row of a check for the script; `file.js` names the columns."""
    check = row.check

    def shared(text: str) -> int:
        return strings.setdefault(text, len(strings))

    most = MOST_LOST if place >= 0 else _FEWER_LOST
    return [
        check.page_id,
        shared(check.level),
        check.url,
        shared(row.host),
        _seconds(check.captured_at),
        _seconds(check.checked_at),
        VERDICT_ORDER.index(check.verdict),
        *(
            (-1 if each is None else int(each * 1000 + 1e-9))
            for each in (check.score, check.picture, check.text, check.resources)
        ),
        sum(FAULT_BITS[each] for each in set(check.faults)),
        shared(str(row.page_class)),
        -1 if row.review is QaVerdict.UNCHECKED else VERDICT_ORDER.index(row.review),
        REPAIR_STATES.index(row.repair),
        shared(check.reason),
        [[part.url, check_presentation.lost(part)] for part in check.lost[:most]] or 0,
        shared(row.note),
        shared(row.reviewed_by),
        place,
    ]


def _words(report: CheckReport) -> Mapping[str, object]:
    language = page_language.get().language
    source = f"{report.title} {report.made_at.isoformat()}"
    return {
        "report": sha256(source.encode("utf-8", "replace")).hexdigest()[:16],  # the browser stores marks under it
        "origin": report.origin,
        "language": language,
        "verdicts": [check_presentation.verdict(each) for each in VERDICT_ORDER],
        "faults": [check_presentation.fault(each) for each in FAULT_BITS],
        "levels": {str(each): check_presentation.level(each) for each in Level},
        "repairs": [check_presentation.repair(each) for each in REPAIR_STATES],
        "faultsTitle": translate(noop("Faults")),
        "reviewed": translate(noop("reviewed")),
        "recrawl": translate(noop("On the list of pages to capture again.")),
        "captured": translate(noop("captured %(when)s"), when="{}"),
        "checked": translate(noop("checked %(when)s"), when="{}"),
        "place": translate(noop("Part %(number)s of %(count)s"), number="{}", count="{}"),
        "resultCount": translate(noop("Results: %(count)s"), count="{}"),
        "marked": translate(noop("Your rating: %(verdict)s."), verdict="{}"),
        "reviewedBy": translate(noop("%(verdict)s, reviewed by %(name)s."), verdict="{}", name="{}"),
        "unnamedReviewer": translate(noop("a reviewer")),
        "notReviewed": translate(noop("Not reviewed.")),
    }


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _json(value: object) -> str:
    """Encode JSON that cannot end a script element: ASCII without ``<``."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _data(name: str, value: object) -> str:
    return f'<script type="application/json" id="{name}">{_json(value)}</script>\n'


def _picture(name: str, body: bytes) -> str:
    return f'<script type="text/plain" id="{name}">{base64.b64encode(body).decode()}</script>\n'


def _seconds(warc_date: str) -> int:
    return unix_milliseconds(parse_warc_date(warc_date)) // 1000
