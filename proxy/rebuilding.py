"""The captures index made again from the WARCs, which are the truth.

Wholly by ``weboid index rebuild``; by `restore`, before anything is written, for closed WARCs that
the index does not cover because it was lost, or came from an older backup.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from core.errors import InputError
from core.layout import OPEN_SUFFIX, Layout
from core.settings import IndexSettings, ProxySettings
from proxy.checksums import closed_warcs, complete
from proxy.index.opening import not_covered, open_index
from proxy.index.protocol import CaptureIndex
from proxy.index.upgrade import upgrade_index
from proxy.indexing import Indexed, index_file
from proxy.members import Damage, walk
from proxy.payloads.opening import open_payloads
from proxy.payloads.protocol import PayloadKey, Payloads
from proxy.recovery import alone, interrupted, is_sound, recover_file, words


def restore(
    layout: Layout,
    settings: ProxySettings,
    *,
    index: IndexSettings | None = None,
    told: Callable[[str], None] = lambda _text: None,
) -> int:
    """Upgrade the captures index; index the closed WARCs of ours it does not cover; return their number.

    Args:
        layout: the collection.
        settings: the bucket and least size of payloads.
        index: which captures index; None: the collection's own.
        told: called with a sentence before the first file, for each damaged one, and at the end.

    Raises:
        IndexUnavailableError, DedupUnavailableError: a server does not answer.
        CollectionVersionError: another version made the index.
    """
    index = index or IndexSettings()
    if not index.url:
        upgrade_index(layout, told)
    with alone(layout), closing(open_index(layout, index)) as opened:
        missing = not_covered(layout, opened.indexed_to)
        if not missing:
            return 0
        told(
            f"The captures index does not cover {len(missing)} of the collection's"
            f" {len(closed_warcs(layout))} closed WARCs: reading them again."
        )
        rows = 0
        with closing(open_payloads(layout, settings, opened)) as payloads:
            for path in missing:
                found = _index_whole(
                    path, path.name, opened, settings.dedup_bucket, settings.dedup_min_bytes, told
                )
                rows += found.rows
                if payloads.shared:
                    payloads.add(opened.payloads_of(path.name))
        opened.settle([path.name for path in missing])
        complete(layout, opened)
    told(f"{rows:,} records of {len(missing)} WARCs are in the captures index again.")
    return len(missing)


def rebuild(  # noqa: PLR0913 what a profile says of dedup, and whom to tell
    layout: Layout,
    *,
    bucket: str,
    min_bytes: int = 1,
    also: Sequence[str] = (),
    shared: Payloads | None = None,
    progress: Callable[[str, int], None] | None = None,
    told: Callable[[str], None] = lambda _text: None,
    index: IndexSettings | None = None,
) -> dict[str, int]:
    """Make the captures index anew from the WARCs; the old one stays until the new one is whole.

    Interrupted files are put in order first. What is damaged is passed over. Every closed WARC gets
    the line in SHA256SUMS that it lacks; lines that are there stay.

    Args:
        layout: the collection.
        bucket: the dedup bucket that payloads are filed under.
        min_bytes: payloads shorter than it are not filed.
        also: buckets that are read only.
        shared: the dedup index of several machines: it learns of every payload here, and knows
            where the payloads of revisits lie that have none here.
        progress: told each file's name and rows as it is done.
        told: told in a sentence what could not be read, and what the old index knew that is gone.
        index: which captures index; None: the collection's own.

    Returns:
        Rows by table, as `CaptureIndex.counts`.

    Raises:
        DedupUnavailableError: `shared` does not answer; the old index stays.
        IndexUnavailableError, CollectionInUseError: the index of several machines does not answer,
            or is used; the old one stays.
        OSError: a file cannot be read, or not be written; the old index stays.
    """
    from proxy.index.renewal import renewal  # its PostgreSQL driver is a tenth of a command's start

    with renewal(layout, index or IndexSettings()) as renewed:
        fresh = renewed.index
        _mend(layout, fresh, renewed.covered, told)
        for path in sorted((*closed_warcs(layout), *interrupted(layout))):
            filename = path.name.removesuffix(OPEN_SUFFIX)
            found = _index_whole(path, filename, fresh, bucket, min_bytes, told)
            if shared is not None:
                shared.add(found.payloads)
            if progress is not None:
                progress(filename, found.rows)
        fresh.settle()
        if shared is not None:
            shared.bury()
            _adopt_orphans(fresh, shared, bucket, also)
        complete(layout, fresh)
        counts = fresh.counts()
        renewed.publish()
    return counts


def _mend(
    layout: Layout,
    index: CaptureIndex,
    covered: Mapping[str, int],
    told: Callable[[str], None],
) -> None:
    """Put interrupted files in order, by what the old index covers; the new one reads them after."""
    gone = []
    for filename, end in covered.items():
        closed, still_open = layout.warc(filename)
        if still_open.exists():
            index.cover(filename, end)
        elif not closed.exists():
            gone.append(filename)
    if gone:
        names = ", ".join(sorted(gone)[:5]) + (", …" if gone[5:] else "")
        told(f"Not here, and so left out of the index: {len(gone)} WARCs that it knew ({names}).")
    for path in interrupted(layout):
        recovered = recover_file(layout, path, index, lambda _wreck, _tail: 0)
        if recovered is not None:
            told(recovered.text)


def _index_whole(
    path: Path,
    filename: str,
    index: CaptureIndex,
    bucket: str,
    min_bytes: int,
    told: Callable[[str], None],
) -> Indexed:
    """Index what of the file can be read; say what cannot."""
    try:
        spans, passed_over = _spans(path)
        if passed_over:
            places = ", ".join(map(str, passed_over[:5])) + (", …" if passed_over[5:] else "")
            told(
                f"{filename} is damaged at {places}: what is there was passed over. `weboid archive"
                " verify` says more; restore the file from a copy, then rebuild again."
            )
        if not spans:
            return Indexed()
        return index_file(path, filename, index, bucket=bucket, min_bytes=min_bytes, spans=spans)
    except InputError as error:
        told(str(error))
    except OSError as error:
        told(f"{filename} was passed over, for it cannot be read: {words(error)}.")
    return Indexed()


def _spans(path: Path) -> tuple[list[tuple[int, int]], list[int]]:
    """From where to where there are whole records, and where there are none."""
    spans: list[tuple[int, int]] = []
    passed_over = []
    for each in walk(path, digests=False):
        if isinstance(each, Damage) or not is_sound(each):
            passed_over.append(each.offset)
        elif spans and spans[-1][1] == each.offset:
            spans[-1] = (spans[-1][0], each.offset + each.length)
        else:
            spans.append((each.offset, each.offset + each.length))
    return spans, passed_over


def _adopt_orphans(index: CaptureIndex, shared: Payloads, bucket: str, also: Sequence[str]) -> None:
    """Find the payloads that other machines hold. A chunked one's key is not in the revisit."""
    orphans = {row: PayloadKey(digest, bucket) for row, digest in index.orphans().items()}
    found = shared.find(set(orphans.values()), also)
    with index.transaction():
        index.adopt({row: found[key] for row, key in orphans.items() if key in found})
