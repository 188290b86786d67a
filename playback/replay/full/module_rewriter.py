"""Rewriter of JavaScript modules and import maps by patterns, as in pywb; pure.

pywb wraps a script in a block to replace its `window` and `location`. The imports of a module would
be syntax errors in a block, so a module imports those names from a module of ours instead. The
content policy blocks addresses that the patterns miss.
"""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

# A path that no part of a page has: on these hosts it is ours.
STATIC_PATH = "/.weboid/"
MODULE_PATH = f"{STATIC_PATH}module.js"
# What pages look at to find out where they are; the same names as in pywb's wrapper.
_WRAPPED = ("window", "self", "document", "location", "top", "parent", "frames", "opener")
# Names, then maybe a list in braces; bounded, and braces do not nest, so that no text takes long.
_SPECIFIER = r"[\w$\s,*]{0,80}(?:\{[\w$\s,]{0,20000}\}\s{0,20})?"
_IS_MODULE = re.compile(
    r"(?:^|[;\n}])\s*(?:"
    rf"import(?![\w$]){_SPECIFIER}from\s*[\"']"
    r"|import\s*[\"']"
    rf"|export\s*(?:\*|\{{[\w$\s,]{{0,20000}}\}})"
    r"|export\s+(?:default|const|let|var|function|class|async)\b)"
)
_FROM = re.compile(
    rf"(?P<head>(?:^|[;\n}}\s])(?:import|export)\b{_SPECIFIER}from\s*|(?:^|[;\n}}])\s*import\s*)"
    r"(?P<quote>[\"'])(?P<url>[^\"'\n]{1,2000})(?P=quote)"
)
_DYNAMIC = re.compile(r"(?<![\w$.])import\s*\((?!\s*\))")
# At a line's beginning or behind a statement's end; an indented one belongs to something.
_DECLARED = re.compile(r"(?:^|[;}])(?:const|let|class)\s+([A-Za-z_$][\w$]{0,100})", re.MULTILINE)
_MOST_NAMES = 500
_LONGEST = 5_000_000  # characters

Rewrite = Callable[[str], str]


def is_module(text: str) -> bool:
    """Return True when the script imports or exports at its top, so that it can only be a module.

    >>> is_module('import{a}from"./a.js";a()'), is_module('import("./a.js")'), is_module("let x=1")
    (True, False, False)
    """
    return _IS_MODULE.search(text[:_LONGEST]) is not None


def rewrite_module(text: str, rewrite: Rewrite, declarations: str) -> str:
    """Return the module with rewritten addresses, and imports of our names from `declarations`."""
    text = _FROM.sub(lambda match: _with_address(match, rewrite), text)
    text = rewrite_dynamic_imports(text, "import.meta.url")
    names = [
        name
        for name in _WRAPPED
        if (re.search(rf"(?<![\w$.]){name}(?![\w$])", text) is not None)
        and not _declares(name, text)
    ]
    # On the first line, so that line numbers stay.
    return (f'import {{{",".join(names)}}} from "{declarations}";' if names else "") + text


def rewrite_dynamic_imports(text: str, base: str) -> str:
    """Return the script with ``import(…)`` rewritten to ask wombat for the address.

    >>> rewrite_dynamic_imports("x=import('./a.js')", "null")
    "x=____wb_rewrite_import__(null,'./a.js')"
    """
    return _DYNAMIC.sub(f"____wb_rewrite_import__({base},", text)


def share_declarations(text: str) -> str:
    """Return the script with its top-level names exported, because pywb wraps it in a block.

    >>> share_declarations("const a=1").splitlines()
    ['const a=1', ';try{self.a=a}catch(_){}']
    """
    names = list(dict.fromkeys(_DECLARED.findall(text)))[:_MOST_NAMES]
    # A name that stands in a function only is none here, and nothing happens.
    shared = "".join(f"try{{self.{name}={name}}}catch(_){{}}" for name in names)
    return f"{text}\n;{shared}" if shared else text


def rewrite_import_map(text: str, rewrite: Rewrite) -> str:
    """Return the import map with rewritten addresses; invalid ones unchanged (HTML, 8.1.6.3)."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict):
        return text
    made: dict[str, Any] = dict(found)
    if isinstance(found.get("imports"), dict):
        made["imports"] = _map(found["imports"], rewrite)
    if isinstance(found.get("scopes"), dict):
        made["scopes"] = {
            rewrite(scope): _map(imports, rewrite) if isinstance(imports, dict) else imports
            for scope, imports in found["scopes"].items()
        }
    # It stands in a script element, which nothing in it may end.
    return json.dumps(made).replace("<", "\\u003c")


def script_addresses(urls: Any) -> Rewrite:
    """Return a rewriter of addresses in scripts; pywb leaves relative ones unchanged."""

    def address(url: str) -> str:
        made: str = urls.rewrite(urljoin(urls.wburl.url, url), "js_")
        return made

    return address


def _map(imports: dict[str, Any], rewrite: Rewrite) -> dict[str, Any]:
    return {
        (rewrite(name) if _is_address(name) else name): (
            rewrite(where) if isinstance(where, str) else where
        )
        for name, where in imports.items()
    }


def _with_address(match: re.Match[str], rewrite: Rewrite) -> str:
    url = match["url"]
    # A bare name is looked up in the page's import map.
    address = rewrite(url) if _is_address(url) else url
    return f"{match['head']}{match['quote']}{address}{match['quote']}"


def _is_address(text: str) -> bool:
    return text.startswith(("/", "./", "../", "http://", "https://"))


def _declares(name: str, text: str) -> bool:
    """Return True when the module may declare that name itself, and so keeps it."""
    return (
        re.search(
            rf"(?:let|const|var|function|class|import|as)\s+(?:[\w$]+\s*,\s*)*{name}(?![\w$])"
            rf"|import\s*{{[^}}]{{0,2000}}(?<![\w$]){name}(?![\w$])(?!\s+as)"
            rf"|(?:let|const|var)\s*[{{\[][^}}\]]{{0,2000}}(?<![\w$]){name}(?![\w$])",
            text,
        )
        is not None
    )
