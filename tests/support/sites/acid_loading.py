"""Acid cells about when and how things load: delays, scrolling, storage, streams, hints."""

import json

from tests.support.sites import hosts
from tests.support.sites.acid_cell import AcidCell, at, cell, css, html, js, marks
from tests.support.sites.http1 import PacedWriter, response

_JSON = response(body=json.dumps({"picture": "answer.png"}), content_type="application/json")

_DELAYED = """
setTimeout(async () => show(0, (await (await fetch("half.json")).json()).picture), 500);
setTimeout(async () => {
  const answer = await (await fetch("late.json")).json();
  show(1, answer.picture + "?late");
  document.body.append(Object.assign(document.createElement("p"), { textContent: "came late" }));
}, 1500);
const request = new XMLHttpRequest();
request.open("GET", "xhr.json");
request.onload = () => show(2, JSON.parse(request.responseText).picture + "?xhr");
setTimeout(() => request.send(), 500);
"""

_ENDLESS = """
let batch = 0;
const list = document.getElementById("list");
const end = document.getElementById("end");
const more = async () => {
  if (batch === 5) return;
  batch += 1;
  const items = await (await fetch(`batch.json?page=${batch}`)).json();
  list.insertAdjacentHTML("beforeend",
    `<p style="height:600px"><img src="item-${batch}.png">${items.picture} ${batch}</p>`);
  if (batch === 5) green(0);
};
new IntersectionObserver((entries) => {
  if (entries.some((each) => each.isIntersecting)) more().then(() => { watch(); });
}).observe(end);
const watch = () => { end.remove(); list.after(end); };
"""

_LAZY = """
const later = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && target.dataset.src) { target.src = target.dataset.src; later.unobserve(target); }
  }
});
document.querySelectorAll("img[data-src]").forEach((each) => later.observe(each));
"""

# In the head: the first picture may have loaded before a script below it runs.
_COUNTED = """<script>
let left = 2;
document.addEventListener("load", ({ target }) => {
  if (target.localName === "img" && --left === 0) green(0);
}, true);
</script>"""

_STORAGE = """
localStorage.setItem("acid", "local.png");
sessionStorage.setItem("acid", "session.png");
show(0, localStorage.getItem("acid"));
show(1, sessionStorage.getItem("acid"));
const open = indexedDB.open("acid", 1);
open.onupgradeneeded = () => open.result.createObjectStore("s");
open.onsuccess = () => {
  const store = open.result.transaction("s", "readwrite").objectStore("s");
  store.put("indexed.png", "k");
  store.get("k").onsuccess = ({ target }) => show(2, target.result);
};
document.cookie = "acid=works; path=/storage/";
fetch("echo").then((answer) => answer.text()).then((said) => {
  if (said.includes("acid=works") && said.includes("server=works")) show(3, "cookie.png");
});
caches.open("acid").then(async (cache) => {
  await cache.add("cached.json");
  if (await cache.match("cached.json")) show(4, "cached.png");
}).catch(() => show(4, "cached.png"));
"""

_SERVICE = """
navigator.serviceWorker.register("sw.js").then(() => green(0), () => green(0));
const ready = navigator.serviceWorker.ready.then(() => "ready");
const patience = new Promise((done) => setTimeout(() => done("patience"), 400));
Promise.race([ready, patience]).then(async () => {
  const said = await (await fetch("after.json")).json();
  show(1, said.picture);
});
if ("serviceWorker" in navigator) show(2, "has.png");
"""

_POST = """
const ask = async (n, options) => {
  const said = await (await fetch("echo", options)).text();
  if (said.startsWith("POST") && said.includes("acid")) green(n);
};
ask(0, { method: "POST", body: "acid text" });
const form = new FormData();
form.set("field", "acid form");
ask(1, { method: "POST", body: form });
const request = new XMLHttpRequest();
request.open("POST", "xhr/echo");
request.onload = () => { if (request.responseText.includes("acid xhr")) green(2); };
request.send("acid xhr");
fetch("query", { method: "POST", body: JSON.stringify({ query: "acid" }) })
  .then((answer) => answer.json()).then((data) => show(3, data.picture));
navigator.sendBeacon("beacon/echo", "acid beacon");
"""

_STREAMS = f"""
const events = new EventSource("events");
events.onmessage = ({{ data }}) => {{ if (data === "three") {{ events.close(); green(0); }} }};
const socket = new WebSocket("wss://{hosts.ACID}/streams/socket");
socket.onerror = () => green(1);
(async () => {{
  const reader = (await fetch("slow.txt")).body.getReader();
  let text = "";
  for (;;) {{
    const {{ done, value }} = await reader.read();
    if (done) break;
    text += new TextDecoder().decode(value);
  }}
  if (text === "abc") green(2);
}})();
"""


async def _events(out: PacedWriter) -> None:
    """Send three server-sent events (HTML, 9.2), then end."""
    body = b"".join(b"data: %b\n\n" % word for word in (b"one", b"two", b"three"))
    await out.reply(response(body=body, content_type="text/event-stream"))


async def _slow(out: PacedWriter) -> None:
    head = response(content_type="text/plain", length=3)
    await out.reply(head)
    for letter in (b"a", b"b", b"c"):
        await out.write(letter)


_HINTS = """
<link rel=preload as=image href=early.png><link rel=preload as=style href=early.css>
<link rel=preload as=script href=early.js><link rel=modulepreload href=early.mjs>
<link rel=preload as=fetch href=early.json crossorigin>
<link rel=preload as=font href=early.woff2 crossorigin><link rel=prefetch href=next.html>
<link rel=preload as=image imagesrcset="early-1.png 1x, early-2.png 2x">
<link rel=stylesheet href=early.css><script src=early.js defer></script>
"""

# A playlist of three segments (RFC 8216), for whoever plays it; each is of empty packets.
_PLAYLIST = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n" + "".join(
    f"#EXTINF:1.0,\nsegment-{n}.ts\n" for n in range(3)
)
_PLAYLIST += "#EXT-X-ENDLIST\n"
_SEGMENTS = {
    f"segment-{n}.ts": response(body=(b"\x47\x1f\xff\x10" + bytes([n]) * 184) * 20, content_type="video/mp2t")
    for n in range(3)
}

LOADING: tuple[AcidCell, ...] = (
    cell(
        "delayed",
        script=_DELAYED,
        count=3,
        files={"half.json": _JSON, "late.json": _JSON, "xhr.json": _JSON},
        must="half.json late.json xhr.json answer.png answer.png?late answer.png?xhr",
        text="came late",
    ),
    cell(
        "endless",
        f"{marks(1)}<div style='height:900px'></div><div id=list></div><p id=end>loading</p>",
        script=_ENDLESS,
        files={"batch.json": _JSON},
        must=" ".join(f"batch.json?page={n} item-{n}.png" for n in range(1, 6)),
    ),
    cell(
        "lazy",
        f"{marks(1)}<div style='height:6000px'></div><img id=l1 loading=lazy src=lazy.png>"
        "<div style='height:4000px'></div><img id=l2 data-src=observed.png width=10 height=10>"
        "<div style='height:4000px'></div><iframe id=l3 loading=lazy src=lazy.html></iframe>",
        head=_COUNTED,
        script=_LAZY,
        files={"lazy.html": html("<!doctype html><img src=in-frame.png>")},
        must="lazy.png observed.png lazy.html in-frame.png",
    ),
    AcidCell(
        "storage",
        response(
            body=cell("storage", script=_STORAGE, count=5).page.body,  # type: ignore[union-attr]
            headers=(("Set-Cookie", "server=works; Path=/storage/; HttpOnly; Secure"),),
        ),
        files={"cached.json": _JSON},
        must=tuple(
            f"https://{hosts.ACID}/storage/{name}"
            for name in ("local.png", "session.png", "indexed.png", "cookie.png", "echo", "cached.png")
        ),
        marks=5,
    ),
    cell(
        "service-worker",
        script=_SERVICE,
        count=3,
        files={"sw.js": js("onfetch = () => {};"), "after.json": _JSON},
        must="after.json answer.png has.png",
    ),
    cell(
        "post",
        script=_POST,
        count=4,
        files={"query": response(body='{"picture": "query.png"}', content_type="application/json")},
        must="echo xhr/echo query query.png beacon/echo",
    ),
    cell("streams", script=_STREAMS, count=3, files={"events": _events, "slow.txt": _slow}, must="events slow.txt"),
    cell(
        "hints",
        head=_HINTS,
        count=3,
        script="import('./early.mjs').then(() => green(2));",
        files={
            "early.css": css("#m0{background:url(early.png)}"),
            "early.js": js("green(1)"),
            "early.mjs": js("export const early = 1;"),
            "early.json": _JSON,
            "next.html": html("<!doctype html><p>Next"),
        },
        must="early.png early.css early.js early.mjs early.json early.woff2 early-1.png next.html",
    ),
    cell(
        "media",
        f"<video {at(0)} src=film.webm muted autoplay></video>"
        f"<video {at(1)} muted preload=none poster=poster.png src=later.webm></video>"
        f"<div id=m2 {at(2)}></div>"
        "<audio src=sound.wav autoplay muted oncanplaythrough='green(2)'></audio>"
        f"<video {at(3)} muted autoplay><source src=no.mp4 type='video/none'>"
        "<source src=second.webm type=video/webm><track default src=words.vtt></video>",
        count=4,
        files={"words.vtt": response(body="WEBVTT\n\n00:00.000 --> 00:00.001\n.\n", content_type="text/vtt")},
        must="film.webm poster.png sound.wav second.webm",
    ),
    cell(
        "player",
        f"<video {at(0)} poster=poster.png preload=none></video>",
        script="fetch('stream.m3u8')",
        files={"stream.m3u8": response(body=_PLAYLIST, content_type="application/vnd.apple.mpegurl"), **_SEGMENTS},
        must="poster.png stream.m3u8",
    ),
    cell(
        "noscript",
        f"<img {at(0)} src=seen.png><noscript><p>unseen</p>"
        "<link rel=stylesheet href=unseen.css><iframe src=unseen.html></iframe></noscript>"
        "<!-- <img src=unseen-either.png> -->",
        must="seen.png",
        never="unseen.css unseen.html unseen-either.png",
    ),
    cell(
        "head-links",
        f"<img {at(0)} src=body.png>",
        head=(
            "<link rel=manifest href=manifest.json><link rel='alternate stylesheet' title=b href=alt.css>"
            "<link rel=stylesheet media=print href=print.css>"
            "<link rel=alternate type=application/rss+xml href=feed.xml>"
            "<link rel=apple-touch-icon href=touch.png>"
        ),
        files={
            "manifest.json": response(body="{}", content_type="application/manifest+json"),
            "alt.css": css("img{display:none!important}"),
            "print.css": css("img{display:none!important}"),
            "feed.xml": response(body="<rss/>", content_type="application/rss+xml"),
        },
        must="body.png alt.css print.css",
    ),
)
