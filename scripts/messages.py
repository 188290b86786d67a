"""Bring the front's catalogues in step with its source: new texts are added, old ones put aside.

    python -m scripts.messages              all languages there are
    python -m scripts.messages --add fr     a new language
    python -m scripts.messages --check      say what is missing, change nothing; exit code 1 if any

Translators fill in ``playback/web/locale/<language>/LC_MESSAGES/front.po``; nothing is compiled.
"""

import argparse
import functools
import io
import sys
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

import weboid.console.api  # noqa: F401 registers the operations
from playback.web.i18n import DOMAIN, LOCALES, SOURCE
from weboid.console.operations import OPERATIONS

ROOT = Path(__file__).parents[1]
SITES = (ROOT / "playback" / "web", ROOT / "qa" / "web", ROOT / "weboid" / "console")
_METHODS = [("**.html", "jinja2"), ("**.py", "python")]
_KEYWORDS = {"_": None, "translate": None, "ngettext": (1, 2), "noop": None}
_OPTIONS = {"**.html": {"trimmed": "true", "silent": "false"}}
_HEADER = """\
# The front's texts.
# Licence: that of Weboid, GPL-3.0-or-later.
"""


@functools.cache
def extracted() -> Catalog:
    """Return every text of the front, with the files that use it."""
    catalog = Catalog(project="Weboid", header_comment=_HEADER)
    for site in SITES:
        messages = extract_from_dir(
            site,
            method_map=_METHODS,
            options_map=_OPTIONS,
            keywords=_KEYWORDS,
            comment_tags=("Translators:",),
            strip_comment_tags=True,
        )
        folder = site.relative_to(ROOT)
        for filename, _line, message, comments, context in messages:
            # Without the line: else every edit of a template would change every catalogue.
            place = (f"{folder}/{filename}", 0)
            catalog.add(message, None, [place], auto_comments=comments, context=context)
    for operation in OPERATIONS.values():
        catalog.add(operation.label, None, [(f"{operation.perform.__module__.replace('.', '/')}.py", 0)])
    return catalog


def path_of(language: str) -> Path:
    """Return the path of a language's catalogue."""
    return LOCALES / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def read_catalog(language: str) -> Catalog:
    """Read the catalogue of a language; an empty one when there is none yet."""
    path = path_of(language)
    if not path.exists():
        return Catalog(locale=language, project="Weboid", header_comment=_HEADER)
    with path.open("rb") as file:
        return read_po(file, locale=language)


def updated(language: str) -> Catalog:
    """Return the language's catalogue with every text of the front, in a fixed order."""
    catalog = read_catalog(language)
    catalog.update(extracted(), no_fuzzy_matching=True, update_header_comment=True)
    catalog.fuzzy = False
    return catalog


def untranslated(catalog: Catalog) -> Iterator[Message]:
    """Yield the texts that the catalogue has no translation or a doubtful one for."""
    for message in catalog:
        if message.id and (not _is_said(message) or message.fuzzy):
            yield message


def text_of(catalog: Catalog) -> bytes:
    """Return the catalogue as the bytes of its file."""
    with io.BytesIO() as file:
        write_po(file, catalog, width=100, sort_output=True, include_lineno=False, ignore_obsolete=True)
        text = file.getvalue()
    # What says when and by which program it was written would differ at every run.
    unsettled = (
        b'"Report-Msgid',
        b'"Language-Team',
        b'"Project-Id',
        b'"POT-Creation-Date',
        b'"PO-Revision-Date',
        b'"Generated-By',
        b'"Last-Translator',
    )
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith(unsettled)]
    return b"".join(lines)


def _is_said(message: Message) -> bool:
    forms = message.string if isinstance(message.string, list | tuple) else [message.string]
    return all(forms)


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--add", metavar="LANGUAGE", help="begin a language")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(arguments)
    names = sorted(path.parent.parent.name for path in LOCALES.glob(f"*/*/{DOMAIN}.po"))
    if options.add and options.add != SOURCE:
        names.append(options.add)
    missing = 0
    for language in names:
        catalog, path = updated(language), path_of(language)
        open_texts = list(untranslated(catalog))
        missing += len(open_texts)
        print(f"{language}: {len(catalog)} texts, {len(open_texts)} not translated")
        for message in open_texts:
            print(f"  {message.id!r}")
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text_of(catalog))
    return 1 if options.check and missing else 0


if __name__ == "__main__":
    sys.exit(main())
