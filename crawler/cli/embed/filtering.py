"""`weboid embed filter`: HTML from a pipe, in files, or a folder of it."""

import asyncio
import json
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress

from core.errors import InputError
from crawler.cli.embed.sharing import lookup_of, marking_of, marking_options
from crawler.cli.exits import Exit
from crawler.cli.options import json_option
from crawler.cli.tables import clean
from wiki.embedding.asking import HttpLookup, Lookup, NobodyAsked
from wiki.embedding.sites import FILE_LIMIT_BYTES, Done, Marking, Site, mark_page

_TIMEOUT_S = 30.0  # nobody waits for a page
_SHOWN = 20  # files that are told of one by one


@click.command("filter")
@click.argument("files", nargs=-1, metavar="[FILE|FOLDER|-]...")
@marking_options
@click.option("--base", default="", metavar="URL", help="Where the page, or the site's root, lies.")
@click.option("--in-place", is_flag=True, help="Write into the files themselves.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a marked copy of FOLDER there, with all its other files.",
)
@click.option("--check", is_flag=True, help="Write nothing; end with 1 when a file would change.")
@click.option(
    "--remove", is_flag=True, help="Take out what earlier runs inserted; nobody is asked."
)
@click.option("--keep", is_flag=True, help="Leave links as they are that were marked before.")
@json_option
def command(
    *,
    files: tuple[str, ...],
    base: str,
    in_place: bool,
    out: Path | None,
    check: bool,
    remove: bool,
    keep: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Mark the links of HTML: from standard input to standard output, or of files and folders.

    \b
    weboid embed filter < page.html > marked.html --front URL --wiki NAME
    weboid embed filter public --out marked --base https://me.example/ --front URL --wiki NAME
    weboid embed filter public --in-place …

    Nothing but insertions is made, and what an earlier run inserted is brought up to date. Ends with 3
    when the front did not answer: pages are then as they were.
    """  # noqa: D301 a sign for click
    marking = marking_of(options, base=base, anew=not keep)
    options["timeout_s"] = options["timeout_s"] or _TIMEOUT_S
    if remove and keep:
        raise InputError("Say --remove or --keep.")
    asked = lookup_of(options, is_patient=True)
    lookup: Lookup = NobodyAsked() if remove else asked
    names = files or ("-",)
    if names == ("-",):
        if in_place or out is not None or check:
            raise InputError(
                "Standard input has no place to write to: name files, or leave that option out."
            )
        return asyncio.run(_closing(asked, _piped(marking, lookup)))
    roots = [Path(each) for each in names]
    _check_places(roots, out, is_said=in_place + (out is not None) + check)
    work = _all(roots, marking, lookup, out=out, check=check, as_json=as_json)
    return asyncio.run(_closing(asked, work))


async def _closing(asked: HttpLookup, work: Coroutine[Any, Any, int]) -> int:
    async with asked:
        return await work


def _check_places(roots: Sequence[Path], out: Path | None, *, is_said: int) -> None:
    """See to it that what is written goes where it was meant to.

    Raises:
        InputError: that cannot be.
    """
    if is_said != 1:
        raise InputError("Say one of --in-place, --out DIR, or --check.")
    if Path("-") in roots:
        raise InputError("Standard input cannot be mixed with files.")
    if out is None:
        return
    if len(roots) != 1:
        raise InputError("--out takes one folder, or one file.")
    inner, outer = out.resolve(), roots[0].resolve()
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        raise InputError("--out must lie neither in that folder nor around it.")


async def _piped(marking: Marking, lookup: Lookup) -> int:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    data = source.read(FILE_LIMIT_BYTES + 1)
    is_answered = True
    if len(data) <= FILE_LIMIT_BYTES:
        # The page's own address is what --base says.
        data, is_answered = await mark_page(data, marking, lookup)
    sink.write(data)
    while data := source.read(1 << 20):
        sink.write(data)
    sink.flush()
    if not is_answered:
        click.echo(f"weboid: {_unanswered(lookup)} The page is as it was.", err=True)
        return Exit.UNAVAILABLE
    return Exit.OK


async def _all(
    roots: Sequence[Path],
    marking: Marking,
    lookup: Lookup,
    *,
    out: Path | None,
    check: bool,
    as_json: bool,
) -> int:
    total = Done()
    with Progress(transient=True, disable=as_json) as progress:
        for root in roots:
            site = Site(root, marking)
            names = site.names()
            task = progress.add_task(clean(root.name), total=len(names))
            done = Done()
            async for done in site.mark(names, lookup, target=out, write=not check):
                progress.update(task, completed=done.pages + done.copied)
            _add(total, done, root if len(roots) > 1 else None)
            progress.remove_task(task)
    _say(total, lookup, check=check, as_json=as_json)
    if total.unanswered:
        return Exit.UNAVAILABLE
    return Exit.SOME_FAILED if total.passed_over or (check and total.changed) else Exit.OK


def _add(total: Done, done: Done, root: Path | None) -> None:
    def placed(name: str) -> str:
        return name if root is None else str(root / name)

    total.pages += done.pages
    total.links += done.links
    total.copied += done.copied
    total.unanswered += done.unanswered
    total.changed += map(placed, done.changed)
    total.passed_over |= {placed(name): why for name, why in done.passed_over.items()}


def _say(total: Done, lookup: Lookup, *, check: bool, as_json: bool) -> None:
    if as_json:
        facts = {
            "pages": total.pages,
            "links": total.links,
            "changed": total.changed,
            "copied": total.copied,
            "unanswered": total.unanswered,
            "passed_over": total.passed_over,
            "front": lookup.failure or None,
            "check": check,
        }
        click.echo(json.dumps(facts))
        return
    for name in total.changed[:_SHOWN] if check else ():
        click.echo(f"would change  {clean(name)}")
    for name, why in list(total.passed_over.items())[:_SHOWN]:
        click.echo(f"{clean(name)} is passed over: {clean(why)}.", err=True)
    verb = "would change" if check else "written"
    copied = f", {total.copied:,} other files copied" if total.copied else ""
    click.echo(
        f"{total.pages:,} pages with {total.links:,} links: {len(total.changed):,} {verb}{copied}."
    )
    if total.unanswered:
        click.echo(
            f"weboid: {_unanswered(lookup)} {total.unanswered:,} pages are as they were: run this again.",
            err=True,
        )


def _unanswered(lookup: Lookup) -> str:
    why = lookup.failure or "it left links out"
    return f"The front did not answer: {clean(why).rstrip('.')}."
