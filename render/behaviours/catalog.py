"""Catalogue of behaviours: their scripts, button words, and rules for consent banners and platforms.

Each behaviour is a file ``NAME.js`` of this folder, or the user's own: a function expression called with `(options,
tools)` in an isolated world. It works for at most ``options.limitMs`` milliseconds and returns ``{found, done,
again}``: the number of elements found, the number acted on, and whether the page may load something now. `tools` are
the functions of ``common.js``.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.config.settings import BehaviourSettings
from core.errors import ConfigError
from core.hosts import HostPatterns

if TYPE_CHECKING:
    from render.behaviours.flows import PageFlow

SCRIPT_LIMIT_BYTES = 1_000_000
_HOSTS = re.compile(r"\s*//\s*hosts:([^\n]{0,2000})")


@dataclass(frozen=True, slots=True)
class BehaviourScript:
    """Script of one behaviour, with the conditions under which it runs."""

    name: str  # file name without its extension
    source: str = ""  # source of a function of `options`
    framed: bool = False  # True when it also runs in the page's frames
    # True when it may click elements that navigate; navigation is blocked meanwhile
    presses: bool = False
    gesture: bool = False  # True when it runs with a simulated user gesture
    stepped: bool = False  # True when it is called again for each step, with `options.step`
    adds: bool = True  # True when it may add content that other behaviours act on
    # Selectors of the elements it acts on; a page without any of them is skipped. Empty: it always runs
    needs: str = ""
    # Regular expression; an element whose id or class matches counts as one of `needs`
    named: str = ""
    hosts: HostPatterns[bool] | None = None  # hosts on which it runs; None: all


@dataclass(frozen=True, slots=True)
class BehaviourSet:
    """Behaviours that a visit runs in order, within one time limit, and their options."""

    chosen: tuple[BehaviourScript, ...]
    limit_s: float
    limits: BehaviourSettings = field(default_factory=BehaviourSettings)
    flows: tuple[PageFlow, ...] = ()  # of the operator, run before them


NO_BEHAVIOURS = BehaviourSet((), 0.0)

# Ours; their scripts are read when they are chosen.
_MEDIA = "video, audio"
_KNOWN = {
    each.name: each
    for each in (
        BehaviourScript("consent", framed=True, needs="dialog[open], [role*=dialog], [aria-modal=true]"),
        BehaviourScript("scroll", framed=True),
        BehaviourScript("sites", presses=True, stepped=True),
        BehaviourScript("lazy", adds=False, framed=True, needs=(
            "[data-src], [data-srcset], [data-original], [data-original-src], [data-original-set],"
            "[data-lazy], [data-lazy-src], [data-lazy-srcset], [data-lazy-bg], [data-url],"
            "[data-image], [data-img-src], [data-hi-res-src], [data-full-src], [data-bg],"
            "[data-bgset], [data-background], [data-background-image], [loading=lazy], noscript"
        )),
        BehaviourScript("details", adds=False, framed=True, needs="details:not([open])"),
        BehaviourScript("media", adds=False, framed=True, gesture=True, needs=_MEDIA),
        BehaviourScript("play", framed=True, gesture=True, presses=True, needs=(
            f"{_MEDIA}, [class*='play' i], [aria-label*='play' i], [title*='play' i], [data-plyr],"
            "[class*='jw-'], lite-youtube, lite-vimeo, .mejs__overlay-button, .wistia_click_to_play"
        )),
        BehaviourScript("candidates", adds=False, framed=True),
        BehaviourScript("expand", presses=True, stepped=True, needs=(
            "[role=tab], [aria-expanded], [data-toggle], [data-bs-toggle]"
        )),
        BehaviourScript("more", presses=True, stepped=True),
        BehaviourScript("hover"),
        BehaviourScript("routes", stepped=True, needs="a[href*='#/'], a[href*='#!']"),
    )
}  # fmt: skip
NAMES = tuple(_KNOWN)
# Likely ids and classes of banners of unknown platforms.
_LIKELY = ("cookie", "consent", "gdpr", "dsgvo", "rgpd", "privacy", "ccpa", "cmp")
_TOKEN = re.compile(r"[#.]([\w-]+)|=['\"]([^'\"]+)")


@lru_cache(maxsize=16)
def load_behaviours(settings: BehaviourSettings) -> BehaviourSet:
    """Return the behaviours that the settings name, then the user's own; ConfigError names a missing one."""
    chosen = [_own(name) for name in settings.run]
    chosen += [_users(Path(path)) for path in settings.scripts]
    flows: tuple[PageFlow, ...] = ()
    if settings.flows:
        from render.behaviours.flows import load_flow

        flows = tuple(load_flow(Path(path)) for path in settings.flows)
    return BehaviourSet(tuple(chosen), settings.limit_s, settings, flows)


def _own(name: str) -> BehaviourScript:
    if name not in _KNOWN:
        raise ConfigError(
            f"[behaviours] run: there is no {name!r}; known: {', '.join(NAMES)}. Name your own file in scripts."
        )
    known, named = _KNOWN[name], ""
    needs = [known.needs] if known.needs else []
    if name == "consent":
        selectors = (selector for rule in load_table("consent")["rule"] for selector in rule["present"])
        names = (max((one or other for one, other in _TOKEN.findall(each)), key=len) for each in selectors)
        named = "|".join(sorted({*_LIKELY, *map(re.escape, names)}))
    elif name == "sites":
        needs += [each for rule in load_table("sites")["rule"] for each in rule["present"]]
    elif name == "expand":
        needs += load_table("sites")["carousels"]["arrows"]
    return replace(known, source=_wrapped(_text(f"{name}.js"), name), named=named, needs=", ".join(needs))


def _users(path: Path) -> BehaviourScript:
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"[behaviours] scripts: {path} cannot be read: name a JavaScript file in UTF-8.") from error
    if len(data) > SCRIPT_LIMIT_BYTES:
        raise ConfigError(f"[behaviours] scripts: {path} has more than {SCRIPT_LIMIT_BYTES} bytes; make it shorter.")
    header = _HOSTS.match(text)
    hosts = [each.strip() for each in header[1].split(",") if each.strip()] if header else []
    if not hosts:
        raise ConfigError(
            f"[behaviours] scripts: {path} must begin with a line that lists its hosts, e.g."
            ' "// hosts: example.org, *.example.org", or "// hosts: *".'
        )
    try:
        patterns = HostPatterns(dict.fromkeys(hosts, True))
    except ConfigError as error:
        raise ConfigError(f"[behaviours] scripts: {path}: {error}") from error
    return BehaviourScript(path.stem, _wrapped(text, ""), presses=True, gesture=True, hosts=patterns)


def _wrapped(function: str, name: str) -> str:
    """Return the function source with its tools and the tables that it needs."""
    has_words = name in ("consent", "more", "routes", "expand", "play", "")
    tables: dict[str, Any] = {"words": load_table("words")} if has_words else {}
    if name == "consent":
        tables["rules"] = load_table("consent")["rule"]
    if name in ("sites", "expand"):
        tables |= load_table("sites")
    body = function.strip().rstrip(";").rstrip()
    return (
        "async (given) => {\n"
        f"const options = {{...given, ...{json.dumps(tables)}}};\n"
        f"const tools = ({_text('common.js')})(options);\n"
        f"const told = await (\n{body}\n)(options, tools);\n"
        "return {...told, frames: window.length};\n}"
    )


@cache
def load_table(name: str) -> dict[str, Any]:
    """Return ``NAME.toml``: ``words`` on buttons by purpose, or the ``rule`` list of ``consent`` or ``sites``."""
    return tomllib.loads(_text(f"{name}.toml"))


def survey_script() -> str:
    """Return a function that reports which of several (selectors, pattern) match nothing in a page, and its frames.

    Ids and classes are read once for all patterns: a list of a hundred selectors would be tried on every element.
    """
    return f"""(needs) => {{
const tools = ({_text("common.js")})({{ limitMs: 1000 }});
const classOf = (node) => tools.attribute(node, "class");
let names = null;
const idle = needs.flatMap(([marks, pattern], at) => {{
  if (tools.find(marks, 1).length) return [];
  if (!pattern) return [at];
  names ??= tools.find("[id], [class]", 20000).map((e) => `${{tools.attribute(e, "id")}} ${{classOf(e)}}`).join(" ");
  return new RegExp(pattern, "i").test(names) ? [] : [at];
}});
return {{ idle, frames: window.length }};
}}"""


@cache
def _text(name: str) -> str:
    return files("render.behaviours").joinpath(name).read_text(encoding="utf-8")
