"""Baselines: stored playback of a fixed sample, and regressions after an upgrade.

    reports/quality/NAME/
        baseline.json     the pages, the seed of the sample, the engine of the playback
        before/           checks.jsonl: a check per line; and the picture and text of each page
        after/            the same for the present playback, written by `weboid qa baseline check`
        after.json        the engine of the present playback
        index.html        report of the differences

Files are written atomically, except the lines, of which a torn last one is skipped: an interrupted
run resumes where it stopped.
"""

import hashlib
import io
import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from PIL import Image

from core.errors import InputError, PermanentError, UnavailableError
from core.layout import check_name
from core.page_classes import parse_page_class
from core.playback_check import PlaybackCheck, check_from_json, check_record, picture_name
from core.timestamps import parse_warc_date, warc_date
from net.stop_signals import StopSignals
from playback.access.levels import Level
from qa.check_run import CheckRunOptions, CheckRunTally, check_copies, write_atomically
from qa.checker import CheckOutcome
from qa.compare.picture_tiles import decode_picture
from qa.local_replay import ENGINE
from qa.page_changes import BaselineView, PlaybackRegression, RegressionKind, compare_playback
from qa.sample import SampleCandidate, SampledPage

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


class BaselineFolder:
    """Folder of a baseline. Thread-safe; used by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._appending = threading.Lock()

    @property
    def report(self) -> Path:
        """Return the path of the HTML report of the differences."""
        return self.folder / "index.html"

    def create(self, header: BaselineHeader) -> None:
        """Create the baseline; raises InputError: a baseline of that name exists."""
        if (self.folder / _HEADER).exists():
            raise InputError(f"There is a baseline {header.name!r} already: choose another name, or remove it.")
        pages = [(asdict(page) | {"captured_at": warc_date(page.captured_at)}) for page in header.pages]
        facts = {"version": VERSION, **asdict(header), "pages": pages}
        write_atomically(self.folder / _HEADER, json.dumps(facts, ensure_ascii=False, indent=1).encode())

    def header(self) -> BaselineHeader:
        """Read the description of the baseline.

        Raises UnavailableError: the baseline does not exist; InputError: it cannot be read.
        """
        path = self.folder / _HEADER
        try:
            facts = json.loads(path.read_bytes())
            if facts["version"] != VERSION:
                raise InputError(f"{path} is of version {facts['version']!r}.")
            pages = []
            for page in facts["pages"]:
                known = {name: page[name] for name in SampleCandidate.__slots__ if name in page}
                known["captured_at"] = parse_warc_date(known["captured_at"])
                known["page_class"] = parse_page_class(known["page_class"])
                pages.append(SampleCandidate(**known))
            values = {name: facts[name] for name in _HEADER_NAMES}
            return BaselineHeader(**values, pages=tuple(pages))
        except FileNotFoundError:
            raise UnavailableError(
                f"There is no baseline {self.folder.name!r}: `weboid qa baseline save` creates one."
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} is not a baseline: {error}.") from error

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
        checks: dict[str, PlaybackCheck] = {}
        with suppress(FileNotFoundError):
            text = (self.folder / when / _LINES).read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                with suppress(ValueError, InputError):  # torn
                    check = check_from_json(json.loads(line))
                    checks[check.page_id] = check
        return checks

    def store(self, when: str, shown: BaselineView) -> None:
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
        """Delete the baseline; raises UnavailableError: it does not exist."""
        if not (self.folder / _HEADER).exists():
            raise UnavailableError(f"There is no baseline {self.folder.name!r}.")
        (self.folder / _HEADER).unlink()  # without it the baseline no longer exists
        shutil.rmtree(self.folder)


def open_baseline(root: Path, name: str) -> BaselineFolder:
    """Return the baseline of that name below the folder, existing or not; raises InputError: the name is invalid."""
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

    Return None for data that is not a picture, or exceeds the size limit of `qa.compare`.
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


# Libraries that decide what a copy looks like.
_LIBRARIES = (
    "brotlicffi", "nh3", "pillow", "pypdfium2", "resvg-py", "tinycss2", "webencodings",
)  # fmt: skip
_SOURCES = (".py", ".js", ".css", ".html", ".toml")
_CHECKED_TWICE = {RegressionKind.WORSE, RegressionKind.CHANGED}
OnCheck = Callable[[CheckOutcome, CheckRunTally], None]


def playback_fingerprint() -> str:
    """Return the playback versions and a digest of playback's sources and its libraries.

    The digest changes with every change of the sanitiser, whether or not its version changes.
    """
    digest = hashlib.sha256()
    root = Path(str(files("playback")))
    for path in sorted(root.rglob("*")):
        if path.suffix in _SOURCES:
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    for name in _LIBRARIES:
        digest.update(f"{name} {version(name)}".encode())
    return f"{ENGINE}, sources {digest.hexdigest()[:12]}"


async def record_before(
    options: CheckRunOptions, baseline: BaselineFolder, header: BaselineHeader, on_check: OnCheck
) -> bool:
    """Record how the pages are played back, except those recorded already; False when it was stopped."""
    done = baseline.checks(BEFORE)
    todo = [page for page in header.pages if page.page_id not in done]
    return await _view_pages(
        options, header.level, [todo], lambda checked: baseline.store(BEFORE, _view_of(checked)), on_check
    )


async def record_after(
    options: CheckRunOptions, baseline: BaselineFolder, header: BaselineHeader, on_check: OnCheck
) -> tuple[bool, list[PlaybackRegression]]:
    """Record the pages again; return whether the run was completed, and the result of every page.

    Pages that differ are checked twice and the better result is kept, so that a moving animation or a
    slow machine is not reported as a change. Pages that were already found unchanged are skipped.
    """
    after = _UpgradeViews(baseline, header.pages)
    turns = [after.todo, after.again]
    whole = await _view_pages(options, header.level, turns, after.keep, on_check)
    return whole, list(after.results.values())


class _UpgradeViews:
    """Checks after an upgrade."""

    def __init__(self, baseline: BaselineFolder, pages: Sequence[SampleCandidate]) -> None:
        self._baseline = baseline
        self._before = baseline.checks(BEFORE)
        self._pages = {page.page_id: page for page in pages if page.page_id in self._before}
        done = baseline.checks(AFTER)
        self.results = {
            page_id: self._compare(baseline.shown(AFTER, done[page_id])) for page_id in self._pages if page_id in done
        }
        self.todo = [page for key, page in self._pages.items() if key not in done]  # pages to check
        # pages that differ and are checked a second time; it grows during the first turn
        self.again = [self._pages[key] for key, each in self.results.items() if each.course in _CHECKED_TWICE]

    def keep(self, checked: CheckOutcome) -> None:
        """Store a result; one of the second turn only when its similarity is higher."""
        after, page_id = _view_of(checked), checked.check.page_id
        result, before = self._compare(after), self.results.get(page_id)
        if before is not None and _rank(result) <= _rank(before):
            return
        self._baseline.store(AFTER, after)
        self.results[page_id] = result
        if before is None and result.course in _CHECKED_TWICE:
            self.again.append(self._pages[page_id])

    def _compare(self, after: BaselineView) -> PlaybackRegression:
        before = self._before[after.check.page_id]
        return compare_playback(self._baseline.shown(BEFORE, before), after)


async def _view_pages(
    options: CheckRunOptions,
    level: str,
    turns: Sequence[Sequence[SampleCandidate]],
    keep: Callable[[CheckOutcome], None],
    on_check: OnCheck,
) -> bool:
    if not any(turns):
        return True  # nothing is started when there is nothing to do
    with StopSignals(lambda: None) as stop:
        sampled = [(Level(level), map(SampledPage, pages)) for pages in turns]
        await check_copies(options, sampled, stop, keep=keep, on_check=on_check)
        return not stop.event.is_set()


def _view_of(checked: CheckOutcome) -> BaselineView:
    view = checked.view
    if view is None:
        return BaselineView(checked.check)
    return BaselineView(checked.check, encode_picture(view.picture), view.text)


def _rank(result: PlaybackRegression) -> tuple[int, float]:
    """Return a sort key: the better result, then the one with the higher similarity, is greater."""
    return list(RegressionKind).index(result.course), result.likeness
