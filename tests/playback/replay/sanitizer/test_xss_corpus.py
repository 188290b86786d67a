"""Payloads that once got past sanitisers, at every level, in a real browser (P-01, P-02, P-13)."""

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from playback.access.levels import Level
from playback.replay.sanitizer.allowlist import FORMULA_ELEMENTS, allowlist_of
from playback.url_paths import LEVEL_MODIFIERS
from tests.playback.full_browser import reader
from tests.playback.replay.sanitizer.test_allowlist import LEVELS, strangers
from tests.playback.replay.sanitizer.test_html_document import VECTORS
from tests.support.playback_fixtures import HeadlessBrowser, LeakListener, ServedCollection

pytestmark = pytest.mark.playback

Call = Callable[[str, list[object]], Any]
each_level = pytest.mark.parametrize("level", LEVELS)

_CORPUS = Path(__file__).with_name("corpus")
_ENDING = "//[\"'`-->]]>]</div>"


def payloads() -> list[str]:
    """Return all payloads of the corpus and the sanitiser's own vectors."""
    vectors = list(VECTORS)
    for name in ("dompurify.txt", "own.txt"):
        text = (_CORPUS / name).read_text(encoding="utf-8")
        for each in text.split("\n=====\n"):
            ended = re.sub(r"@@(?=\n|$)", lambda _: _ENDING, each.removesuffix("\n"))
            vectors.append(re.sub(r"\\u([0-9A-Fa-f]{4})", lambda m: chr(int(m[1], 16)), ended))
    return vectors


PAYLOADS = payloads()

# Runs before the copies, where they stand without any policy: notes whatever runs, then does what a
# reader could do, and reads the document once more from its own serialisation, as mXSS needs.
_HARNESS = r"""<script>
const ran=[];const note=what=>ran.push(String(what));
for(const name of ['alert','confirm','prompt','print','open','eval'])window[name]=note;
window.addEventListener('error',e=>{if(e instanceof ErrorEvent)note(e.message)},true);
window.addEventListener('click',e=>{const a=e.target.closest('a,area');
 if(a&&a.href&&a.origin!=='http://front.test'&&!a.getAttribute('href').startsWith('#'))note(a.href);
 if(a&&a.origin==='http://front.test')e.preventDefault()},true);
window.addEventListener('load',()=>{
 const allowed=new Set(__TAGS__),formula=new Set(__FORMULA__);
 const check=()=>{for(const each of document.querySelectorAll('main *')){
  const name=each.localName;
  const inFormula=each.namespaceURI==='http://www.w3.org/1998/Math/MathML';
  if(inFormula?!formula.has(name):!allowed.has(name)&&!(__CUSTOM__&&name.includes('-')))note('<'+name+'>');
  if(!inFormula&&each.namespaceURI!=='http://www.w3.org/1999/xhtml')note(each.namespaceURI);
  if(!inFormula&&each.closest('math'))note('in a formula: '+name);
  for(const {name:key,value} of each.attributes)if(/^on|^srcdoc$|action$|^ping$/.test(key)
   &&!(name==='iframe'&&key==='srcdoc')||key==='srcset'&&!/^(\/c\/|data:image)/.test(value))
   note(name+' '+key);}};
 const poke=()=>{for(const each of document.querySelectorAll('main *')){
  for(const type of ['mouseover','focus','blur','mousedown','toggle','animationstart','beforetoggle'])
   each.dispatchEvent(new Event(type));
  if(each.click&&each.localName!=='iframe')each.click();}};
 check();poke();
 const main=document.querySelector('main');const before=main.innerHTML;
 main.innerHTML=before;if(main.innerHTML!==before)note('changed');
 check();poke();
 setTimeout(()=>{document.title='done '+JSON.stringify(ran)},300);
});
</script><main>"""


def _bare_page(bodies: list[str], level: Level) -> str:
    shows = allowlist_of(level)
    tags = sorted(shows.tags | ({"iframe", "div"} if shows.has_look else {"div"}))
    harness = _HARNESS.replace("__TAGS__", json.dumps(tags))
    formula = ["math", *sorted(FORMULA_ELEMENTS)] if shows.has_look else []
    harness = harness.replace("__FORMULA__", json.dumps(formula))
    harness = harness.replace("__CUSTOM__", json.dumps(shows.has_look))
    divided = "".join(f"<div>{body}</div>" for body in bodies)
    return f"<!DOCTYPE html><meta charset=utf-8>{harness}{divided}</main>"


def _verdict(dom: str) -> list[str]:
    match = re.search(r"<title>done (.*?)</title>", dom, re.DOTALL)
    assert match, dom[:2000]
    verdict: list[str] = json.loads(unescape(match[1]))
    return verdict


@pytest.mark.browser
def test_the_harness_sees_what_runs(browser: HeadlessBrowser, leaks: LeakListener) -> None:
    """Unsanitised, some of the corpus runs, brings strangers, and asks elsewhere."""
    page = browser.home / "raw.html"
    raw = ["<img src=x onerror=alert(1)>", "<a href=javascript:alert(2)>x</a>", "<svg></svg>",
           "<p style='background:url(http://evil.example/x)'>x", "<b onfocus=alert(3)>x</b>"]  # fmt: skip
    page.write_text(_bare_page(raw, Level.IMAGES), encoding="utf-8")

    ran = _verdict(browser.dump_dom(page.as_uri(), leaks=leaks))

    assert {"1", "2", "3", "<svg>"} <= set(ran)
    assert leaks.requests != []


@pytest.mark.browser
@each_level
def test_nothing_of_the_corpus_runs_without_any_policy(
    in_replay: Call, browser: HeadlessBrowser, leaks: LeakListener, level: Level
) -> None:
    """Sanitised markup needs no Content-Security-Policy to be harmless, even when it is clicked."""
    bodies = [in_replay("fragment", [each, level]) for each in PAYLOADS]
    page = browser.home / "page.html"
    page.write_text(_bare_page(bodies, level), encoding="utf-8")

    ran = _verdict(browser.dump_dom(page.as_uri(), leaks=leaks))

    assert ran == []
    assert leaks.requests == []


@each_level
def test_of_the_corpus_only_what_a_level_shows_stays(in_replay: Call, level: Level) -> None:
    """Each payload by itself, and it settles at once."""
    for payload in PAYLOADS:
        once, twice = in_replay("body_twice", [payload, level])
        assert strangers(once, level) == [], payload
        assert twice == once, payload


@pytest.mark.browser
async def test_nothing_of_the_corpus_runs_or_leaks_in_replay(
    served: ServedCollection, site: str, leaks: LeakListener
) -> None:
    """All of it in one page, at each level, as the reader's browser gets it: DOM and source alike (P-03)."""
    calm = "<!DOCTYPE html><title>calm</title>"
    marked = "".join(f"<div>{each}</div>" for each in PAYLOADS)
    marked = marked.replace("alert(", "document.title=(").replace("evil.example", "leak.test")
    served.builder.page(f"{site}/", calm + marked)
    served.builder.response(f"{site}/source", (calm + marked).encode())

    async with reader(leaks.port) as tab:
        for level in LEVELS:
            for path in ("/", "/source"):
                address = f"{served.replay}/c/20260301120000{LEVEL_MODIFIERS[level]}/{site}{path}"
                await tab.open(address)
                state = [await tab.address(), await tab.ask("document.title")]
                assert state == [address, "calm"]
    assert leaks.requests == []
