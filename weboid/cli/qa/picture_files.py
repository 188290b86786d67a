"""Comparison of two pictures of a page, by `weboid qa compare SEEN SHOWN`."""

from dataclasses import asdict
from pathlib import Path

import click

from core.errors import InputError, PictureError
from core.playback_check import QaVerdict
from qa.compare.picture_comparison import PictureComparison, compare_pictures, describe_differences
from qa.compare.picture_decoder import MOST_BYTES, MOST_PIXELS, decode_picture
from weboid.app.text_table import clean, table, width
from weboid.cli.support.commands import ExitCode
from weboid.cli.support.options import CommandOutput

_COLOURS = {QaVerdict.GOOD: "green", QaVerdict.DOUBTFUL: "yellow", QaVerdict.BROKEN: "red"}
_MOST_SHOWN = 10


def compare_files(seen: Path, shown: Path, heat: Path | None, output: CommandOutput) -> int:
    """Print how much of `seen` is in `shown`, write the map of differences, return the exit code.

    Raises InputError for a file that cannot be used.
    """
    if heat is not None and heat.exists() and any(heat.samefile(each) for each in (seen, shown)):
        raise InputError(f"{clean(str(heat))} is compared itself: give --heat another name.")
    first, second = _read(seen), _read(shown)
    try:
        comparison = compare_pictures(first, second, heat=heat is not None)
    except PictureError as error:
        # The error does not name the file: report the first that cannot be opened.
        for path, data in ((seen, first), (shown, second)):
            try:
                decode_picture(data)
            except PictureError as fault:
                raise InputError(
                    f"{clean(str(path))} cannot be compared. {fault}"
                    f" Give a whole PNG, JPEG or WebP picture of at most {MOST_PIXELS:,} pixels."
                ) from fault
        raise InputError(f"The pictures cannot be compared: {error}") from error
    if heat is not None and comparison.heat is not None:
        try:
            heat.write_bytes(comparison.heat)
        except OSError as error:
            raise InputError(
                f"{clean(str(heat))} cannot be written: {error.strerror or error}."
                " Give --heat a file in an existing folder."
            ) from error
    document = {**asdict(comparison), "sentence": describe_differences(comparison)}
    del document["heat"]
    output.show(document, lines_for(comparison))
    return ExitCode.OK if comparison.verdict is QaVerdict.GOOD else ExitCode.SOME_FAILED


def lines_for(comparison: PictureComparison) -> list[str]:
    """Return the comparison as text: the verdict, a sentence, figures and the worst regions."""
    verdict = click.style(comparison.verdict.value, fg=_COLOURS[comparison.verdict], bold=True)
    faults = f" ({', '.join(comparison.faults)})" if comparison.faults else ""
    figures = (
        "same", "structure", "lost", "changed", "added", "covered", "recoloured", "rewritten",
        "moved", "largest",
    )  # fmt: skip
    rows = [(name, f"{getattr(comparison, name):.4f}") for name in figures]
    sizes = [
        (f"size {side}", "{} x {}".format(*getattr(comparison, f"size_{side}")))
        for side in ("seen", "shown")
    ]
    lines = [
        f"{verdict}{faults}, score {comparison.score:.4f}",
        describe_differences(comparison),
        "",
    ]
    lines += table(["figure", "value>"], rows + sizes, columns=width())
    if comparison.regions:
        boxes = [
            (each.kind.value, str(each.x), str(each.y), str(each.w), str(each.h))
            for each in comparison.regions[:_MOST_SHOWN]
        ]
        head = ["region", "x>", "y>", "width>", "height>"]
        lines += ["", *table(head, boxes, columns=width())]
    if len(comparison.regions) > _MOST_SHOWN:
        lines.append(f"and {len(comparison.regions) - _MOST_SHOWN} more, see --json")
    return lines


def _read(path: Path) -> bytes:
    name = clean(str(path))
    try:
        if path.is_dir():
            raise InputError(f"{name} is a folder: name a PNG, JPEG or WebP file in it.")
        if path.exists() and not path.is_file():
            raise InputError(f"{name} is no file: keep the picture in one, and name that.")
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{name} is larger than {MOST_BYTES:,} bytes: give a smaller picture.")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{name} is not there: check its name and folder.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name} cannot be read: {reason}.") from error
