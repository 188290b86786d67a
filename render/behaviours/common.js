// The `tools` argument of every behaviour. It reads through prototypes, because forms and documents
// answer with their own elements to any name that a page gives one.
(options) => {
  "use strict";
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => get.call(node);
  };
  const shadowOf = reader(Element, "shadowRoot");
  const nameOf = reader(Element, "localName");
  const scrollHeightOf = reader(Element, "scrollHeight");
  const innerTextOf = reader(HTMLElement, "innerText");
  const attribute = (node, name) => Element.prototype.getAttribute.call(node, name);
  const setAttribute = (node, name, value) => Element.prototype.setAttribute.call(node, name, value);
  const box = (node) => Element.prototype.getBoundingClientRect.call(node);
  const style = (node) => getComputedStyle(node);
  const within = (node, selector) => Element.prototype.closest.call(node, selector);
  const root = () => reader(Document, "documentElement")(document);
  const body = () => reader(Document, "body")(document);
  const height = () =>
    Math.max(0, ...[root(), body()].map((node) => (node ? scrollHeightOf(node) : 0)));

  const end = performance.now() + options.limitMs;
  const left = () => end - performance.now();
  const pause = (ms) => new Promise((go) => setTimeout(go, Math.max(0, Math.min(ms, left()))));
  // Two frames drawn: then callbacks of IntersectionObserver have run. A page may draw none; a busy
  // machine draws them late.
  let patience = 1000;
  const drawn = async (count = 2) => {
    const frame = () => new Promise((go) => requestAnimationFrame(() => go(true)));
    const frames = count > 1 ? frame().then(frame) : frame();
    if (!(await Promise.race([frames, pause(patience)]))) patience = 100;
  };

  // In how many milliseconds the page's last short timer fires, by timers.js; zero without one.
  const due = () => {
    let ms = 0;
    const hear = (event) => (ms = Number(event.detail) || 0);
    addEventListener("weboid-due", hear);
    dispatchEvent(new Event("weboid-timers"));
    removeEventListener("weboid-due", hear);
    return ms;
  };

  const query = (selector, from) => {
    const type = from === document ? Document : from instanceof ShadowRoot ? DocumentFragment : Element;
    return type.prototype.querySelectorAll.call(from, selector);
  };
  let known = null;
  // The document and its open shadow roots.
  const roots = () => {
    if (known) return known;
    known = [document];
    let looked = 0;
    for (let at = 0; at < known.length && known.length < 200; at += 1) {
      for (const node of query("*", known[at])) {
        looked += 1;
        if (looked > 20000) return known;
        const shadow = shadowOf(node);
        if (shadow) known.push(shadow);
      }
    }
    return known;
  };
  // The first `limit` elements that match, also in shadow roots.
  const find = (selector, limit = 1000) => {
    const found = [];
    for (const from of roots()) {
      for (const node of query(selector, from)) {
        if (found.length >= limit) return found;
        found.push(node);
      }
    }
    return found;
  };
  const seen = (node) => {
    const { width, height: tall } = box(node);
    if (width < 2 || tall < 2) return false;
    return Element.prototype.checkVisibility.call(node, {
      opacityProperty: true,
      visibilityProperty: true,
    });
  };
  const label = (node, limit = 200) => {
    const own = node instanceof HTMLElement ? innerTextOf(node) : "";
    const said = [own, attribute(node, "aria-label"), attribute(node, "value"), attribute(node, "title")];
    const text = said.find((each) => each && each.trim()) || "";
    return text.slice(0, limit).replace(/\s+/g, " ").trim().toLowerCase();
  };
  const has = (text, words) => words.some((word) => text.includes(word));
  // Test whether a click may have an unwanted effect, or navigate.
  const barred = (node) => {
    const link = within(node, "a[href], area[href]");
    if (link && !/^\s*(#|javascript:|$)/i.test(attribute(link, "href"))) return true;
    if (within(node, "[type=submit], [type=image], [type=file], [type=reset], [download]")) return true;
    const button = within(node, "button");
    if (button && reader(HTMLButtonElement, "form")(button)) {
      if (reader(HTMLButtonElement, "type")(button) === "submit") return true;
    }
    const marks = ["id", "class", "name", "data-action", "aria-label"].map((n) => attribute(node, n) || "");
    const text = ` ${label(node)} ${marks.join(" ").toLowerCase()} `;
    // Words of one piece stand alone: "sign" is no "design".
    return (options.words?.barred || []).some((word) => {
      const at = text.indexOf(word);
      return at >= 0 && !/[\p{L}]/u.test(text[at - 1]) && !/[\p{L}]/u.test(text[at + word.length]);
    });
  };
  // A click with what comes before it, which some pages listen to instead.
  const press = (node) => {
    const { left: x, top: y, width, height: tall } = box(node);
    const facts = {
      bubbles: true, cancelable: true, composed: true, view: window, button: 0, detail: 1,
      clientX: x + width / 2, clientY: y + tall / 2,
    };
    const send = (event) => EventTarget.prototype.dispatchEvent.call(node, event);
    const pointer = { ...facts, pointerId: 1, pointerType: "mouse", isPrimary: true };
    send(new PointerEvent("pointerdown", { ...pointer, buttons: 1 }));
    send(new MouseEvent("mousedown", { ...facts, buttons: 1 }));
    send(new PointerEvent("pointerup", pointer));
    send(new MouseEvent("mouseup", facts));
    if (node instanceof HTMLElement) HTMLElement.prototype.click.call(node);
    else send(new MouseEvent("click", facts));
  };
  // An absolute http(s) URL without its fragment; else null.
  const address = (text) => {
    if (!text || text.length > 8000) return null;
    try {
      const url = new URL(text.trim(), reader(Node, "baseURI")(document));
      url.hash = "";
      return /^https?:$/.test(url.protocol) ? url.href : null;
    } catch {
      return null;
    }
  };
  let loadedAlready = null;
  const loaded = (url) => {
    loadedAlready ??= new Set([
      address(reader(Document, "URL")(document)), // an image may be the document itself
      ...performance.getEntriesByType("resource").map((each) => each.name),
    ]);
    if (loadedAlready.has(url)) return true;
    loadedAlready.add(url);
    return false;
  };
  // Load pictures as the page would, without showing them; how many came. `like` has the policies.
  const loadPictures = async (wanted) => {
    let came = 0;
    await Promise.race([
      pause(options.limitMs),
      Promise.all(
        wanted.map(
          ({ url, like }) =>
            new Promise((go) => {
              const picture = new Image();
              for (const name of ["crossorigin", "referrerpolicy"]) {
                const value = like && attribute(like, name);
                if (value !== null && value !== undefined) setAttribute(picture, name, value);
              }
              picture.onload = () => go((came += 1));
              picture.onerror = go;
              picture.src = url;
            }),
        ),
      ),
    ]);
    return came;
  };
  const srcset = (text) => {
    const urls = [];
    // HTML 4.8.4.3.10: white space ends a URL, commas may be in it, but not at its end.
    for (const match of (text || "").slice(0, 100000).matchAll(/[\s,]*(\S*[^\s,])(?:\s+[^,]*)?(?:,|$|(?=\s))/g)) {
      urls.push(match[1]);
      if (urls.length >= 100) break;
    }
    return urls;
  };
  return {
    address, attribute, barred, body, box, drawn, due, find, has, height, label, left, loaded, loadPictures,
    nameOf, pause, press, query, reader, root, roots, scrollHeightOf, seen, setAttribute, shadowOf,
    srcset, style, within,
  };
}
