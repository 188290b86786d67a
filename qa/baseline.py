"""Baselines: stored playback of a fixed sample, and regressions after an upgrade.

    reports/quality/NAME/
        baseline.json     the pages, the seed of the sample, the engine of the playback
        before/           checks.jsonl: a check per line; and the picture and text of each page
        after/            the same for the present playback, written by `weboid qa baseline check`
        after.json        the engine of the present playback
        index.html        report of the differences

A torn last line is skipped: an interrupted run resumes where it stopped.
"""

import hashlib
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
from core.json_values import read_json
from core.layout import check_name
from core.playback_check import PlaybackCheck, check_from_json, check_record, picture_name
from core.timestamps import warc_date
from net.stop_signals import StopSignals
from playback.access.levels import Level
from qa.check_run import CheckRunOptions, CheckRunTally, check_copies, write_atomically
from qa.checker import CheckOutcome
from qa.compare.picture_tiles import decode_picture, encode_image
from qa.copy_view import CopyView
from qa.local_replay import ENGINE
from qa.page_changes import BaselineView, PlaybackRegression, RegressionKind, compare_playback
from qa.sample import SampleCandidate, SampledPage

VERSION = 1
LONGEST_NAME = 64
MOST_TEXT_CHARACTERS = 600_000  # as many as are compared
_TALLEST_WEBP_PX = 16_383
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
        self.report = folder / "index.html"  # of the differences
        self._appending = threading.Lock()

    def create(self, header: BaselineHeader) -> None:
        """Create the baseline; raises InputError: a baseline of that name exists."""
        if (self.folder / _HEADER).exists():
            raise InputError(f"There is a baseline {header.name!r} already: choose another name, or remove it.")
        facts = {"version": VERSION, **asdict(header)}
        text = json.dumps(facts, default=warc_date, ensure_ascii=False, indent=1)
        write_atomically(self.folder / _HEADER, text.encode())

    def header(self) -> BaselineHeader:
        """Read the description; UnavailableError: the baseline does not exist; InputError: it cannot be read."""
        path = self.folder / _HEADER
        try:
            facts = json.loads(path.read_bytes())
            if facts["version"] != VERSION:
                raise InputError(f"it is of version {facts['version']!r}.")  # noqa: TRY301 reported with the others
            return read_json(BaselineHeader, facts)
        except FileNotFoundError:
            raise UnavailableError(
                f"There is no baseline {self.folder.name!r}: `weboid qa baseline save` creates one."
            ) from None
        except (ValueError, TypeError, KeyError, InputError) as error:
            raise InputError(f"{path} is not a baseline: {str(error).rstrip('.')}.") from error

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
            write_atomically(_file(folder, check, "text"), shown.text[:MOST_TEXT_CHARACTERS].encode("utf-8", "replace"))
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
        with suppress(InputError, UnavailableError):
            yield BaselineFolder(path.parent).header()


def encode_picture(picture: bytes | None) -> bytes | None:
    """Encode a picture losslessly as WebP, or as PNG where it is too tall for that; None: it cannot be decoded."""
    if picture is None:
        return None
    try:
        image = Image.fromarray(decode_picture(picture))
    except PermanentError:
        return None
    if max(image.size) > _TALLEST_WEBP_PX:
        return encode_image(image, "PNG", compress_level=3)
    # The quickest way that has no loss; a better one saves a tenth and takes ten times as long.
    return encode_image(image, "WEBP", lossless=True, quality=0, method=0)


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
    """Return the versions of playback, and a digest of its sources and libraries, as a version may stay the same."""
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

    def keep(checked: CheckOutcome) -> None:
        baseline.store(BEFORE, _view_of(checked))

    return await _view_pages(options, header.level, [todo], keep, on_check)


async def record_after(
    options: CheckRunOptions, baseline: BaselineFolder, header: BaselineHeader, on_check: OnCheck
) -> tuple[bool, list[PlaybackRegression]]:
    """Record the pages again; return whether the run was completed, and the result of every page.

    Pages that differ are checked twice and the better result is kept: an animation or a slow machine is no change.
    """
    before, done = baseline.checks(BEFORE), baseline.checks(AFTER)
    pages = {page.page_id: page for page in header.pages if page.page_id in before}

    def compare(after: BaselineView) -> PlaybackRegression:
        return compare_playback(baseline.shown(BEFORE, before[after.check.page_id]), after)

    def keep(checked: CheckOutcome) -> None:
        """Store a result; one of the second turn only when its similarity is higher."""
        after, page_id = _view_of(checked), checked.check.page_id
        result, earlier = compare(after), results.get(page_id)
        if earlier is not None and _rank(result) <= _rank(earlier):
            return
        baseline.store(AFTER, after)
        results[page_id] = result
        if earlier is None and result.kind in _CHECKED_TWICE:
            again.append(pages[page_id])

    results = {key: compare(baseline.shown(AFTER, done[key])) for key in pages if key in done}
    todo = [page for key, page in pages.items() if key not in done]
    again = [pages[key] for key, each in results.items() if each.kind in _CHECKED_TWICE]
    whole = await _view_pages(options, header.level, [todo, again], keep, on_check)
    return whole, list(results.values())


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
    view = checked.view or CopyView()
    return BaselineView(checked.check, encode_picture(view.picture), view.text)


def _rank(result: PlaybackRegression) -> tuple[int, float]:
    """Return a sort key: the better result, then the one with the higher similarity, is greater."""
    return list(RegressionKind).index(result.kind), result.likeness
