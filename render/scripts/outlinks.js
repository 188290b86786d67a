// Returns the absolute http(s) targets of links in order, each once, with their context; and the numbers of
// cross-origin frames (render/page_frames.py). Fragments are removed except "#!" ones. The first `fullLimit`
// links are described in full. Same-origin frames and shadow roots count as part of the page.
(limit, urlLimit, fullLimit) => {
  "use strict";
  // Getters of the prototypes: a form's input can shadow any property by its name.
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => get.call(node);
  };
  const nameOf = reader(Element, "localName");
  const openOf = reader(Element, "shadowRoot");
  const closed = Object.hasOwn(globalThis, "weboidClosed") ? globalThis.weboidClosed : new WeakMap(); // hosts.js
  const shadowOf = (node) => openOf(node) ?? closed.get(node) ?? null;
  const textOf = reader(Node, "textContent");
  const documents = new Map([
    ["iframe", reader(HTMLIFrameElement, "contentDocument")],
    ["frame", reader(HTMLFrameElement, "contentDocument")],
    ["object", reader(HTMLObjectElement, "contentDocument")],
  ]);
  const baseOf = reader(Node, "baseURI");
  const attribute = (node, name) => Element.prototype.getAttribute.call(node, name);
  const numberOf = (node) => {
    if (!Object.hasOwn(globalThis, "weboidFrames")) globalThis.weboidFrames = [];
    const at = globalThis.weboidFrames.indexOf(node);
    return at < 0 ? globalThis.weboidFrames.push(node) - 1 : at;
  };
  // Only the beginning of long texts is normalised, to save time.
  const words = (text, limit) => text.slice(0, 20 * limit).replace(/\s+/g, " ").trim().slice(0, limit);
  const PLACES = "nav,main,article,aside,header,footer,form,dialog,[role]";
  const ROLES = {
    navigation: "nav", main: "main", article: "article", complementary: "aside", banner: "header",
    contentinfo: "footer", search: "form", form: "form", dialog: "dialog",
  };
  const SELF = new Set(Object.values(ROLES));
  const placeOf = (node) => {
    for (let at = node, steps = 0; steps < 20; steps += 1) {
      at = Element.prototype.closest.call(at, PLACES);
      if (!at) return "";
      const role = attribute(at, "role");
      const place = (role && Object.hasOwn(ROLES, role) && ROLES[role]) || (SELF.has(nameOf(at)) ? nameOf(at) : "");
      if (place) return place;
      at = reader(Node, "parentElement")(at);
      if (!at) return "";
    }
    return "";
  };
  const labelOf = (node) => {
    const own = words(textOf(node), 200) || attribute(node, "aria-label") || attribute(node, "title") || attribute(node, "alt");
    if (own) return words(own, 200);
    const picture = Element.prototype.querySelector.call(node, "img[alt], svg title");
    return picture ? words(attribute(picture, "alt") ?? textOf(picture), 200) : "";
  };
  const found = new Map();
  const entries = [];
  let heading = "";
  const target = (href, base) => {
    if (href === null || href.length > urlLimit) return null;
    let url;
    try {
      url = new URL(href, base);
    } catch {
      return null;
    }
    if (url.protocol !== "http:" && url.protocol !== "https:") return null;
    if (!url.hash.startsWith("#!")) url.hash = "";
    return url.href.length <= urlLimit ? url.href : null;
  };
  const describe = (node, kind) => entries.length >= fullLimit ? { kind } : ({
    text: labelOf(node),
    rel: words(attribute(node, "rel") ?? "", 100).toLowerCase(),
    kind,
    place: placeOf(node),
    heading,
    visible: Element.prototype.checkVisibility.call(node, { visibilityProperty: true, opacityProperty: true }),
  });
  const add = (node, kind) => {
    const url = target(attribute(node, "href") ?? attribute(node, "xlink:href"), baseOf(node));
    if (url === null) return;
    const known = found.get(url);
    // Of repeated links the best visible one is described.
    if (known && known.visible && known.text) return;
    const description = describe(node, kind);
    if (!known) {
      const entry = { url, ...description };
      found.set(url, entry);
      entries.push(entry);
    } else if (description.visible >= known.visible && (description.text || !known.text)) Object.assign(known, description);
  };
  const HEADING = /^h[1-6]$/;
  const HEAD_LINKS = /^(next|prev|alternate|amphtml|canonical|shortlink|license|author|help|first|last|up|index|contents)$/;
  const addHead = (node, name) => {
    if (name === "link") {
      const rel = words(attribute(node, "rel") ?? "", 100).toLowerCase();
      if (!rel.split(" ").some((word) => HEAD_LINKS.test(word)) || rel.includes("stylesheet")) return;
      const url = target(attribute(node, "href"), baseOf(node));
      const title = words(attribute(node, "title") ?? attribute(node, "hreflang") ?? "", 200);
      if (url !== null) entries.push({ url, text: title, rel, kind: "link", place: "", heading: "", visible: false });
    } else if (/^refresh$/i.test(attribute(node, "http-equiv") ?? "")) {
      // HTML, "shared declarative refresh steps": seconds, then perhaps "url=" and quotes.
      const match = /^\s*[\d.]+\s*[;,\s]\s*(?:url\s*=\s*)?(["']?)(.+)$/i.exec((attribute(node, "content") ?? "").slice(0, urlLimit));
      const href = match && (match[1] ? match[2].split(match[1])[0] : match[2]);
      const url = href ? target(href, baseOf(node)) : null;
      if (url !== null) entries.push({ url, text: "", rel: "", kind: "refresh", place: "", heading: "", visible: false });
    }
  };
  const below = (root, type, depth) => {
    for (const node of type.prototype.querySelectorAll.call(root, "*")) {
      if (entries.length >= limit || depth > 50) return;
      const name = nameOf(node);
      if (name === "a" || name === "area") add(node, name);
      else if (HEADING.test(name)) heading = words(textOf(node), 200);
      else if (name === "link" || name === "meta") addHead(node, name);
      const shadow = shadowOf(node);
      if (shadow) below(shadow, DocumentFragment, depth + 1);
      if (name === "iframe" || name === "frame" || (name === "object" && /html/i.test(attribute(node, "type") ?? ""))) {
        const inner = documents.get(name)(node);
        if (inner) below(inner, Document, depth + 10);
        else entries.push(numberOf(node));
      }
    }
  };
  below(document, Document, 0);
  return entries;
}
