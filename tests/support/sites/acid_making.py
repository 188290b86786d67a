"""Acid cells whose page is made by scripts: images, modules, components, canvases, workers."""

from tests.support.sites import hosts
from tests.support.sites.acid_cell import ORIGIN, AcidCell, at, cell, css, html, js, marks
from tests.support.sites.http1 import response

_FRAME = "<!doctype html><style>body{margin:0;background:#008000}</style>"

_MODULES = f"""
import {{ one }} from "./static.js";
import {{ mapped }} from "acid-map";
import data from "./data.json" with {{ type: "json" }};
if (one === 1) show(0, "static.png");
if (mapped === "map") show(1, "map.png");
const name = ["dyn", "amic"].join("");
const dynamic = await import(`./${{name}}.js?v=${{1 + 1}}`);
if (dynamic.two === 2) show(2, dynamic.picture);
if (data.works) show(3, "json.png");
const far = await import("https://{hosts.APART}/modules/far.js");
if (far.far) show(4, "far.png");
"""

_COMPONENTS = """
class AcidBox extends HTMLElement {
  connectedCallback() {
    const root = this.attachShadow({ mode: "open" });
    root.innerHTML = `<style>:host{display:block;width:100px;height:100px}
      .in{width:100px;height:100px;background:url(slot.png)}::slotted(img){display:block}</style>
      <div class=in></div>`;
  }
}
class AcidSlot extends HTMLElement {
  constructor() {
    super();
    this.attachShadow({ mode: "open" }).innerHTML = "<div><slot name=p>none</slot></div>";
  }
}
class AcidDiv extends HTMLDivElement {
  connectedCallback() { this.style.backgroundImage = "url(builtin.png)"; }
}
class AcidAdopt extends HTMLElement {
  constructor() {
    super();
    const root = this.attachShadow({ mode: "closed" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("div{width:100px;height:100px;background:#008000}");
    root.adoptedStyleSheets = [sheet];
    root.append(document.createElement("div"));
  }
}
customElements.define("acid-box", AcidBox);
customElements.define("acid-slot", AcidSlot);
customElements.define("acid-div", AcidDiv, { extends: "div" });
customElements.define("acid-adopt", AcidAdopt);
const whole = new CSSStyleSheet();
whole.replaceSync("#m4{background:#008000}");
document.adoptedStyleSheets = [whole];
"""

_SHADOW = """
const open = mark(0).attachShadow({ mode: "open" });
open.innerHTML = "<style>div{height:100px;background:#008000}</style><div></div>";
const closed = mark(1).attachShadow({ mode: "closed" });
closed.innerHTML = "<img src=closed.png width=100 height=100><p>said in a closed root</p>";
const outer = mark(3).attachShadow({ mode: "open" });
outer.innerHTML = "<section></section>";
const inner = outer.firstChild.attachShadow({ mode: "closed" });
inner.innerHTML = "<style>img{width:100px}</style><img src=nested.png>";
"""

_CANVAS = """
const paint = (canvas) => {
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#008000";
  pen.fillRect(0, 0, 100, 100);
  return canvas;
};
paint(document.getElementById("c0"));
const made = document.createElement("canvas");
made.width = made.height = 100;
const image = new Image();
image.onload = () => document.getElementById("c1").getContext("2d").drawImage(image, 0, 0);
image.src = "drawn.png";
document.getElementById("c2").src = paint(made).toDataURL();
const worker = new Worker("worker.js");
worker.onmessage = ({ data }) =>
  document.getElementById("c3").getContext("bitmaprenderer").transferFromImageBitmap(data);
const off = document.getElementById("c4").transferControlToOffscreen();
worker.postMessage(off, [off]);
const gl = document.getElementById("c5").getContext("webgl");
if (gl) { gl.clearColor(0, 128 / 255, 0, 1); gl.clear(gl.COLOR_BUFFER_BIT); }
else paint(document.getElementById("c5"));
"""
_CANVAS_WORKER = """
const paint = (canvas) => {
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#008000";
  pen.fillRect(0, 0, 100, 100);
  return canvas;
};
postMessage(paint(new OffscreenCanvas(100, 100)).transferToImageBitmap());
onmessage = ({ data }) => paint(data);
"""

_BLOBS = """
const blob = (text, type) => URL.createObjectURL(new Blob([text], { type }));
const bytes = await (await fetch("blob.png")).arrayBuffer();
document.getElementById("b1").src = URL.createObjectURL(new Blob([bytes], { type: "image/png" }));
const add = (name, values) => document.head.append(Object.assign(document.createElement(name), values));
add("script", { src: blob("green(2)", "text/javascript") });
add("link", { rel: "stylesheet", href: blob("#m3{background:#008000!important}", "text/css") });
const worker = new Worker(blob("postMessage(1)", "text/javascript"));
worker.onmessage = () => green(4);
document.getElementById("b5").src = blob("FRAME", "text/html");
mark(8).style.backgroundImage =
  `url(${URL.createObjectURL(new Blob([bytes], { type: "image/png" }))})`;
""".replace("FRAME", _FRAME)
_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mNgaGAAAAGGAIHf5N0HAAAAAElFTkSuQmCC"
)
_DATA = f"""
<img id=b0 {at(0)} src="{_PIXEL}"><img id=b1 {at(1)}>
<div id=m2 {at(2)}></div><div id=m3 {at(3)}></div><div id=m4 {at(4)}></div>
<iframe id=b5 {at(5)}></iframe>
<iframe {at(6)} src="data:text/html,{_FRAME.replace("#", "%23").replace("<", "%3C")}"></iframe>
<div id=m7 {at(7)}></div><div id=m8 {at(8)}></div><div id=m9 {at(9)}></div>
<link rel=stylesheet href="data:text/css,%23m7%7Bbackground:green%7D">
<script src="data:text/javascript,green(9)"></script>
"""

MAKING: tuple[AcidCell, ...] = (
    cell(
        "script-images",
        count=3,
        script=(
            "const image = new Image(100, 100); image.src = ['o', 'ne'].join('') + '.png';"
            "mark(0).append(image);"
            "mark(1).innerHTML = `<img src=two-${1 + 1}.png width=100>`;"
            "setTimeout(() => mark(2).insertAdjacentHTML('beforeend', '<img src=later.png>'), 200);"
        ),
        must="one.png two-2.png later.png",
    ),
    cell(
        "modules",
        count=5,
        head='<script type="importmap">{"imports":{"acid-map":"./mapped.js"}}</script>',
        script=_MODULES,
        module=True,
        files={
            "static.js": js('import { deep } from "./deep/er.js"; export const one = deep;'),
            "deep/er.js": js("export const deep = 1;"),
            "mapped.js": js('export const mapped = "map";'),
            "dynamic.js": js(
                'export const two = 2; export const picture = new URL("dynamic.png", import.meta.url).href;'
            ),
            "far.js": js("export const far = true;"),
            "data.json": response(body='{"works": true}', content_type="application/json"),
        },
        must=f"static.js deep/er.js mapped.js dynamic.js?v=2 data.json static.png map.png dynamic.png"
        f" json.png far.png https://{hosts.APART}/modules/far.js",
    ),
    cell(
        "shadow",
        f"<div id=m0 {at(0)}></div><div id=m1 {at(1)}></div>"
        + "".join(
            f"<div {at(n)}><template shadowrootmode={mode}><style>p{{margin:0;height:100px;"
            f"background:url({mode}ly.png)}}</style><p></p></template></div>"
            for n, mode in ((2, "open"), (4, "closed"))
        )
        + f"<div id=m3 {at(3)}></div>",
        script=_SHADOW,
        count=5,
        must="closed.png openly.png closedly.png nested.png",
        text="said in a closed root",
    ),
    cell(
        "components",
        f"<acid-box {at(0)}></acid-box><acid-slot {at(1)}><img slot=p src=slotted.png></acid-slot>"
        f"<div is=acid-div {at(2)}></div><acid-adopt {at(3)}></acid-adopt><div id=m4 {at(4)}></div>",
        script=_COMPONENTS,
        count=5,
        must="slot.png slotted.png builtin.png",
    ),
    cell(
        "canvas",
        "".join(f"<canvas id=c{n} width=100 height=100 {at(n)}></canvas>" for n in (0, 1))
        + f"<img id=c2 {at(2)}>"
        + "".join(f"<canvas id=c{n} width=100 height=100 {at(n)}></canvas>" for n in (3, 4, 5)),
        script=_CANVAS,
        count=6,
        files={"worker.js": js(_CANVAS_WORKER)},
        must="drawn.png worker.js",
    ),
    cell("data-blob", _DATA, script=_BLOBS, module=True, count=10, must="blob.png"),
    cell(
        "workers",
        count=3,
        script=(
            "new Worker('classic.js').onmessage = ({ data }) => { if (data === 'ab') green(0) };"
            "new Worker('module.js', { type: 'module' }).onmessage = () => green(1);"
            "const shared = new SharedWorker('shared.js');"
            "shared.port.onmessage = ({ data }) => show(2, data); shared.port.start();"
        ),
        files={
            "classic.js": js("importScripts('a.js', 'b.js'); postMessage(a + b);"),
            "a.js": js("var a = 'a';"),
            "b.js": js("var b = 'b';"),
            "module.js": js("import { word } from './word.js'; postMessage(word);"),
            "word.js": js("export const word = 1;"),
            "shared.js": js(
                "onconnect = async ({ ports: [port] }) => {"
                "await fetch('shared.json'); port.postMessage('shared.png') };"
            ),
            "shared.json": response(body="{}", content_type="application/json"),
        },
        must="classic.js a.js b.js module.js word.js shared.js shared.json shared.png",
    ),
    cell(
        "template",
        f"{marks(2)}<template id=t><img src=cloned.png></template><template><img src=unused.png></template>",
        script=(
            "mark(0).append(document.getElementById('t').content.cloneNode(true));"
            "mark(1).append(document.importNode(new DOMParser().parseFromString("
            "'<img src=parsed.png>', 'text/html').images[0]));"
        ),
        count=2,
        must="cloned.png parsed.png",
        never="unused.png",
    ),
    cell(
        "document-write",
        f"<script>document.write('<img {at(0)} src=written.png>"
        f'<div id=m1 {at(1)}></div><script src="written.js"><\\/script>\')</script>',
        count=2,
        files={"written.js": js("document.write('<style>#m1{background:#008000}</style>')")},
        must="written.png written.js",
    ),
    cell(
        "inserted-rules",
        count=5,
        head="<style id=s></style><link rel=stylesheet href=linked.css>",
        files={"linked.css": css("#m3{background:red!important}#m4{background:red}")},
        script=(
            "document.getElementById('s').sheet.insertRule('#m0{background:url(inserted.png)}');"
            "document.styleSheets[0].insertRule('#m1{background:#008000}');"
            "const linked = document.styleSheets[document.styleSheets.length - 1];"
            "linked.insertRule('#m2{background:#008000 !important}', 2);"
            "linked.deleteRule(0); green(3);"
            "linked.cssRules[0].style.backgroundColor = '#008000';"
        ),
        must="inserted.png linked.css",
    ),
    cell(
        "frames-made",
        script=(
            "const frame = document.createElement('iframe'); frame.src = 'made.html';"
            "frame.style.border = 0; mark(0).append(frame);"
            "const blank = document.createElement('iframe'); blank.style.border = 0;"
            "mark(1).append(blank); blank.contentDocument.body.innerHTML ="
            "`<style>body{margin:0}</style><img src=${location.href}blank.png>`;"
        ),
        count=2,
        files={"made.html": html(f"{_FRAME}<img src=made.png>")},
        must=f"made.html made.png blank.png {ORIGIN}/frames-made/made.html",
    ),
)
