"""Baselines: stored playback of a fixed sample, and regressions after an upgrade.

    reports/quality/NAME/
        baseline.json     the pages, the seed of the sample, the engine of the playback
        before/           checks.jsonl: a check per line; and the picture and text of each page
        after/            the same for the present playback, written by `weboid qa baseline check`
        after.json        the engine of the present playback
        index.html        report of the differences

Files are written atomically, except the lines, of which a torn last one is skipped: an interrupted
run resumes where it stopped.

Two comparisons decide: both views with each other, and each with the capture. A view that shows
less than the one before is worse, regardless of the capture; one that is closer to the capture is
better. A difference in neither direction counts as changed and needs a person's review.
"""

import io
import json
import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from PIL import Image

from core.errors import InputError, PermanentError, UnavailableError
from core.layout import check_name
from core.page_classes import parse_page_class
from core.playback_check import (
    PlaybackCheck,
    PlaybackFault,
    QaVerdict,
    check_from_json,
    check_record,
    picture_name,
)
from core.timestamps import parse_warc_date, warc_date
from qa.check_run import write_atomically
from qa.compare.picture_comparison import PictureComparison, compare_if_readable
from qa.compare.picture_decoder import decode_picture
from qa.compare.text_comparison import TextComparison, compare_texts
from qa.sample import SampleCandidate

VERSION = 1
LONGEST_NAME = 64
MOST_TEXT_CHARACTERS = 600_000  # as many as are compared
_TALLEST_WEBP_PX = 16_383
_HEADER_NAMES = ("name", "level", "engine", "saved_at", "seed")
_HEADER, _AFTER, _LINES = "baseline.json", "after.json", "checks.jsonl"
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True)
class BaselineHeader:
    """Description of a baseline: the sample, and the engine that `saved_at` (a WARC-Date) played it."""

    name: str
    level: str
    engine: str
    saved_at: str
    seed: int
    pages: tuple[SampleCandidate, ...]


@dataclass(frozen=True, slots=True)
class BaselineView:
    """View of a page: its check, a lossless PNG or WebP, and the visible text; None when missing."""

    check: PlaybackCheck
    picture: bytes | None = None
    text: str | None = None


class BaselineFolder:
    """Folder of a baseline. Thread-safe; used by one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Use the folder, which `create` makes."""
        self.folder = folder
        self._appending = threading.Lock()

    @property
    def report(self) -> Path:
        """Return the path of the HTML report of the differences."""
        return self.folder / "index.html"

    def create(self, header: BaselineHeader) -> None:
        """Create the baseline.

        Raises:
            InputError: a baseline of that name exists.
        """
        if (self.folder / _HEADER).exists():
            raise InputError(
                f"There is a baseline {header.name!r} already: take another name, or remove it."
            )
        pages = [
            (asdict(page) | {"captured_at": warc_date(page.captured_at)}) for page in header.pages
        ]
        facts = {"version": VERSION, **asdict(header), "pages": pages}
        write_atomically(
            self.folder / _HEADER, json.dumps(facts, ensure_ascii=False, indent=1).encode()
        )

    def header(self) -> BaselineHeader:
        """Read the description of the baseline.

        Raises:
            UnavailableError: the baseline does not exist.
            InputError: it cannot be read.
        """
        path = self.folder / _HEADER
        try:
            facts = json.loads(path.read_bytes())
            if facts["version"] != VERSION:
                raise InputError(f"{path} is of version {facts['version']!r}.")
            pages = tuple(map(_page_of, facts["pages"]))
            return BaselineHeader(**{name: facts[name] for name in _HEADER_NAMES}, pages=pages)
        except FileNotFoundError:
            raise UnavailableError(
                f"There is no baseline {self.folder.name!r}: `weboid qa baseline save` makes one."
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} is no baseline: {error}.") from error

    def begin_after(self, engine: str, *, again: bool) -> None:
        """Start the views after the upgrade, or resume those of the same engine unless `again`."""
        path = self.folder / _AFTER
        with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
            if not again and str(json.loads(path.read_bytes())["engine"]) == engine:
                return
        shutil.rmtree(self.folder / AFTER, ignore_errors=True)
        write_atomically(path, json.dumps({"engine": engine}).encode())

    def checks(self, when: str) -> dict[str, PlaybackCheck]:
        """Return the checks stored so far, by page id; `when` is `BEFORE` or `AFTER`."""
        return {each.page_id: each for each in _read_lines(self.folder / when / _LINES)}

    def keep(self, when: str, shown: BaselineView) -> None:
        """Store the view of a page; the page counts as done when this returns."""
        folder = self.folder / when
        folder.mkdir(parents=True, exist_ok=True)
        check = shown.check
        if shown.picture is not None:
            write_atomically(_file(folder, check, "picture"), shown.picture)
        if shown.text is not None:
            text = shown.text[:MOST_TEXT_CHARACTERS].encode("utf-8", "replace")
            write_atomically(_file(folder, check, "text"), text)
        line = json.dumps(json.loads(check_record(check, check.page_id))["checked"])
        with self._appending, (folder / _LINES).open("a", encoding="utf-8") as lines:
            lines.write(f"\n{line}\n")

    def shown(self, when: str, check: PlaybackCheck) -> BaselineView:
        """Return the stored view of a page."""
        stored: dict[str, bytes] = {}
        for kind in ("picture", "text"):
            with suppress(FileNotFoundError):
                stored[kind] = _file(self.folder / when, check, kind).read_bytes()
        text = stored["text"].decode("utf-8", "replace") if "text" in stored else None
        return BaselineView(check, stored.get("picture"), text)

    def remove(self) -> None:
        """Delete the baseline.

        Raises:
            UnavailableError: it does not exist.
        """
        if not (self.folder / _HEADER).exists():
            raise UnavailableError(f"There is no baseline {self.folder.name!r}.")
        (self.folder / _HEADER).unlink()  # without it the baseline no longer exists
        shutil.rmtree(self.folder)


def open_baseline(root: Path, name: str) -> BaselineFolder:
    """Return the baseline of that name below the folder, existing or not.

    Raises:
        InputError: the name is invalid.
    """
    return BaselineFolder(root / check_name(name, of="a baseline", limit=LONGEST_NAME))


def list_baselines(root: Path) -> Iterator[BaselineHeader]:
    """Yield the description of every readable baseline below the folder, by name."""
    for path in sorted(root.glob(f"*/{_HEADER}")):
        try:
            yield BaselineFolder(path.parent).header()
        except (InputError, UnavailableError):
            continue


def encode_picture(picture: bytes | None) -> bytes | None:
    """Encode a picture losslessly as WebP, or as PNG where it is too tall for that.

    Return None for data that is no picture, or exceeds the size limit of `qa.compare`.
    """
    if picture is None:
        return None
    try:
        image = Image.fromarray(decode_picture(picture))
    except PermanentError:
        return None
    out = io.BytesIO()
    if max(image.size) <= _TALLEST_WEBP_PX:
        # The quickest way that has no loss; a better one saves a tenth and takes ten times as long.
        image.save(out, "WEBP", lossless=True, quality=0, method=0)
    else:
        image.save(out, "PNG", compress_level=3)
    return out.getvalue()


def _file(folder: Path, check: PlaybackCheck, kind: str) -> Path:
    """Return the path of an artifact; the page id is validated, as an index may be poisoned."""
    name = Path(picture_name(check.page_id, check.level, "shown")).name.removesuffix(".shown.webp")
    return folder / f"{name}.{kind}"


def _read_lines(path: Path) -> Iterable[PlaybackCheck]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield check_from_json(json.loads(line))
        except (ValueError, InputError):
            continue  # torn


def _page_of(facts: dict[str, Any]) -> SampleCandidate:
    known = {name: facts[name] for name in SampleCandidate.__slots__ if name in facts}
    known["captured_at"] = parse_warc_date(known["captured_at"])
    known["page_class"] = parse_page_class(known["page_class"])
    return SampleCandidate(**known)


SAME = 0.999  # a score from here on is that of the same picture, or text
STEP = 0.01  # a change of the score against the capture below this is none
LOST_SHARE = 0.02  # share of what was shown that may be gone before that counts as worse
_RANKS = {QaVerdict.BROKEN: 0, QaVerdict.DOUBTFUL: 1, QaVerdict.GOOD: 2}


class RegressionKind(StrEnum):
    """Direction of change of a page's playback."""

    WORSE = "worse"
    GONE = "gone"  # it is not in the archive any more, or was taken down
    CHANGED = "changed"
    BETTER = "better"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class PlaybackRegression:
    """Change of one page's playback.

    Attributes:
        course: direction of change.
        reason: a sentence; empty when it is unchanged.
        before: check before the upgrade.
        after: present check.
        picture, text: comparisons of both views; None when one is missing.
    """

    course: RegressionKind
    reason: str
    before: PlaybackCheck
    after: PlaybackCheck
    picture: PictureComparison | None = None
    text: TextComparison | None = None

    @property
    def likeness(self) -> float:
        """Return the lower of both scores; 1 when nothing was compared."""
        return min((each.score for each in (self.picture, self.text) if each), default=1.0)

    @property
    def step(self) -> float | None:
        """Return the change of the score against the capture; None when one is missing."""
        if self.before.score is None or self.after.score is None:
            return None
        return self.after.score - self.before.score


def compare_playback(
    before: BaselineView, after: BaselineView, *, heat: bool = False
) -> PlaybackRegression:
    """Compare two views of a page; with `heat`, draw a heat map of the differences, too."""
    was, is_ = before.check, after.check
    if not (_is_shown(was) and _is_shown(is_)):
        course, reason = RegressionKind.UNCHANGED, ""
        if _is_shown(is_):
            course, reason = RegressionKind.BETTER, f"It was not shown: {was.reason}"
        elif _is_shown(was):
            is_worse = PlaybackFault.NOT_SHOWN in is_.faults
            course = RegressionKind.WORSE if is_worse else RegressionKind.GONE
            reason = f"It is not shown any more: {is_.reason}"
        return PlaybackRegression(course, reason, was, is_)
    picture, text = compare_if_readable(before.picture, after.picture, heat=heat), None
    if before.text is not None and after.text is not None:
        text = compare_texts(before.text, after.text)
    found = PlaybackRegression(RegressionKind.UNCHANGED, "", was, is_, picture, text)
    course, reason = _judged(found)
    return replace(found, course=course, reason=reason)


def count_by_kind(found: Iterable[PlaybackRegression]) -> dict[RegressionKind, int]:
    """Count pages by direction of change; every direction has an entry."""
    counts = Counter(each.course for each in found)
    return {course: counts[course] for course in RegressionKind}


def regression_as_json(found: PlaybackRegression) -> dict[str, Any]:
    """Convert to a JSON object."""
    return {
        "page_id": found.after.page_id,
        "url": found.after.url,
        "course": str(found.course),
        "reason": found.reason,
        "picture": None if found.picture is None else round(found.picture.score, 4),
        "text": None if found.text is None else round(found.text.score, 4),
        "before": {"verdict": str(found.before.verdict), "score": found.before.score},
        "after": {"verdict": str(found.after.verdict), "score": found.after.score},
    }


def sort_worst_first(found: Iterable[PlaybackRegression]) -> list[PlaybackRegression]:
    """Sort in the order of review, the worst first."""
    courses = list(RegressionKind)
    return sorted(
        found,
        key=lambda each: (
            courses.index(each.course),
            each.step or 0.0,
            each.likeness,
            each.after.url,
        ),
    )


def _is_shown(check: PlaybackCheck) -> bool:
    return check.verdict is not QaVerdict.UNCHECKED and PlaybackFault.NOT_SHOWN not in check.faults


def _judged(found: PlaybackRegression) -> tuple[RegressionKind, str]:
    step = found.step or 0.0
    was, is_ = found.before, found.after
    against = (
        f"Its likeness to the capture went from {was.score or 0.0:.3f} to {is_.score or 0.0:.3f}."
    )
    fell = _RANKS.get(is_.verdict, 0) - _RANKS.get(was.verdict, 0)
    if step <= -STEP or (fell < 0 and step < 0):
        return RegressionKind.WORSE, f"{against} {is_.reason}".strip()
    if step >= STEP:
        return RegressionKind.BETTER, against
    if found.likeness >= SAME:
        return RegressionKind.UNCHANGED, ""
    picture, text = found.picture, found.text
    if picture is not None and (picture.verdict is QaVerdict.BROKEN or picture.lost > LOST_SHARE):
        share, what = picture.lost, "what was drawn is not drawn"
    elif text is not None and text.kept < 1 - LOST_SHARE:
        share, what = 1 - text.kept, "the words are not there"
    else:
        return RegressionKind.CHANGED, f"Both looks are alike by {100 * found.likeness:.1f} %."
    return RegressionKind.WORSE, f"{100 * share:.1f} % of {what} any more."
