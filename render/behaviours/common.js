// Returns the `tools` argument of all behaviours. Properties are read with the prototypes' getters, because
// elements of a page can shadow any property of forms and of the document by their names.
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
  // After two frames the callbacks of IntersectionObserver have run. A page may render no frames, or, on a
  // busy machine, render them late.
  let frameTimeout = 1000;
  const drawn = async (count = 2) => {
    const frame = () => new Promise((go) => requestAnimationFrame(() => go(true)));
    const frames = count > 1 ? frame().then(frame) : frame();
    if (!(await Promise.race([frames, pause(frameTimeout)]))) frameTimeout = 100;
  };

  // Return the milliseconds until the page's last short timer fires (timers.js), or 0.
  const due = () => {
    let ms = 0;
    const onDue = (event) => (ms = Number(event.detail) || 0);
    addEventListener("weboid-due", onDue);
    dispatchEvent(new Event("weboid-timers"));
    removeEventListener("weboid-due", onDue);
    return ms;
  };

  const query = (selector, from) => {
    const type = from === document ? Document : from instanceof ShadowRoot ? DocumentFragment : Element;
    return type.prototype.querySelectorAll.call(from, selector);
  };
  let knownRoots = null;
  // Return the document and its open shadow roots.
  const roots = () => {
    if (knownRoots) return knownRoots;
    knownRoots = [document];
    let count = 0;
    for (let at = 0; at < knownRoots.length && knownRoots.length < 200; at += 1) {
      for (const node of query("*", knownRoots[at])) {
        count += 1;
        if (count > 20000) return knownRoots;
        const shadow = shadowOf(node);
        if (shadow) knownRoots.push(shadow);
      }
    }
    return knownRoots;
  };
  // Return the first `limit` matching elements, including those in shadow roots.
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
    const labels = [own, attribute(node, "aria-label"), attribute(node, "value"), attribute(node, "title")];
    const text = labels.find((each) => each && each.trim()) || "";
    return text.slice(0, limit).replace(/\s+/g, " ").trim().toLowerCase();
  };
  const has = (text, words) => words.some((word) => text.includes(word));
  // Return whether a click may navigate or have an unwanted effect.
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
    // Match whole words: "sign" is not in "design".
    return (options.words?.barred || []).some((word) => {
      const at = text.indexOf(word);
      return at >= 0 && !/[\p{L}]/u.test(text[at - 1]) && !/[\p{L}]/u.test(text[at + word.length]);
    });
  };
  // Click an element, with the preceding pointer events, on which some pages rely.
  const press = (node) => {
    const { left: x, top: y, width, height: tall } = box(node);
    const init = {
      bubbles: true, cancelable: true, composed: true, view: window, button: 0, detail: 1,
      clientX: x + width / 2, clientY: y + tall / 2,
    };
    const send = (event) => EventTarget.prototype.dispatchEvent.call(node, event);
    const pointer = { ...init, pointerId: 1, pointerType: "mouse", isPrimary: true };
    send(new PointerEvent("pointerdown", { ...pointer, buttons: 1 }));
    send(new MouseEvent("mousedown", { ...init, buttons: 1 }));
    send(new PointerEvent("pointerup", pointer));
    send(new MouseEvent("mouseup", init));
    if (node instanceof HTMLElement) HTMLElement.prototype.click.call(node);
    else send(new MouseEvent("click", init));
  };
  // Return the absolute http(s) URL without its fragment, or null.
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
  let loadedUrls = null;
  // Return whether a URL was loaded or requested already; mark it as requested.
  const loaded = (url) => {
    loadedUrls ??= new Set([
      address(reader(Document, "URL")(document)), // an image may be the document itself
      ...performance.getEntriesByType("resource").map((each) => each.name),
    ]);
    if (loadedUrls.has(url)) return true;
    loadedUrls.add(url);
    return false;
  };
  // Load images without showing them, with the request policies of the element `like`; return how many loaded.
  const loadPictures = async (wanted) => {
    let count = 0;
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
              picture.onload = () => go((count += 1));
              picture.onerror = go;
              picture.src = url;
            }),
        ),
      ),
    ]);
    return count;
  };
  const srcset = (text) => {
    const urls = [];
    // HTML 4.8.4.3.10: white space ends a URL; it may contain commas, but not at its end.
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
