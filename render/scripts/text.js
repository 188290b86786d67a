// Returns the visible text in reading order: strings, and the numbers of cross-origin frames
// (render/page_frames.py).
//
// innerText excludes shadow roots and frames. So their ancestors are traversed node by node, through slots
// as rendered, and innerText is used for all other elements. Content that is not rendered is omitted;
// content that is scrolled out of view, clipped or transparent is included.
(limit) => {
  "use strict";
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => get.call(node);
  };
  const HTML = "http://www.w3.org/1999/xhtml";
  const DEPTH = 400;
  const bodyOf = reader(Document, "body");
  const innerText = reader(HTMLElement, "innerText");
  const nameOf = reader(Element, "localName");
  const namespaceOf = reader(Element, "namespaceURI");
  const openOf = reader(Element, "shadowRoot");
  const closed = Object.hasOwn(globalThis, "weboidClosed") ? globalThis.weboidClosed : new WeakMap(); // hosts.js
  const shadowOf = (node) => openOf(node) ?? closed.get(node) ?? null;
  const typeOf = reader(Node, "nodeType");
  const firstOf = reader(Node, "firstChild");
  const nextOf = reader(Node, "nextSibling");
  const parentOf = reader(Node, "parentNode");
  const textOf = reader(Node, "textContent");
  const hostOf = reader(ShadowRoot, "host");
  const documents = new Map([
    ["iframe", reader(HTMLIFrameElement, "contentDocument")],
    ["frame", reader(HTMLFrameElement, "contentDocument")],
    ["object", reader(HTMLObjectElement, "contentDocument")],
  ]);
  const isFrame = (node, name) =>
    name === "iframe" || name === "frame" ||
    (name === "object" && /html/i.test(Element.prototype.getAttribute.call(node, "type") ?? ""));
  const isVisible = (node) => Element.prototype.checkVisibility.call(node, { visibilityProperty: true });
  const styleOf = (node) => getComputedStyle(node);
  const numberOf = (node) => {
    if (!Object.hasOwn(globalThis, "weboidFrames")) globalThis.weboidFrames = [];
    const at = globalThis.weboidFrames.indexOf(node);
    return at < 0 ? globalThis.weboidFrames.push(node) - 1 : at;
  };
  const attempt = (action, otherwise) => {
    try {
      return action();
    } catch {
      return otherwise;
    }
  };

  const parts = [];
  let length = 0;
  const add = (text) => {
    if (!text || length >= limit) return;
    const cut = text.slice(0, limit - length);
    length += cut.length;
    if (typeof parts.at(-1) === "string") parts[parts.length - 1] += cut;
    else parts.push(cut);
  };
  const endsLine = () => parts.length === 0 || (typeof parts.at(-1) === "string" && parts.at(-1).endsWith("\n"));
  const breakLine = () => {
    if (endsLine()) return;
    if (typeof parts.at(-1) === "string") parts[parts.length - 1] = parts.at(-1).replace(/[ \t]{1,100}$/, "");
    add("\n");
  };

  // Shadow hosts, slots of shadow trees and frames, with their ancestors.
  const special = new Set();
  const mark = (node) => {
    for (let at = node; at && !special.has(at); at = typeOf(at) === 11 ? hostOf(at) : parentOf(at)) special.add(at);
  };
  const find = (root, type, depth) => {
    for (const node of type.prototype.querySelectorAll.call(root, "*")) {
      const shadow = shadowOf(node);
      if (shadow && depth < 50) {
        mark(node);
        find(shadow, DocumentFragment, depth + 1);
      }
      const name = nameOf(node);
      if (isFrame(node, name) || (name === "slot" && type === DocumentFragment)) mark(node);
    }
  };
  const isBlock = (display) => !/^(inline|contents|ruby|none)/.test(display);
  const frame = (node, name, depth) => {
    if (!isVisible(node)) return;
    breakLine();
    const inner = attempt(() => documents.get(name)(node), null);
    if (inner) page(inner, depth + 50);
    else parts.push(numberOf(node));
    breakLine();
  };
  const children = (node, depth) => {
    for (let child = firstOf(node); child && length < limit; child = nextOf(child)) read(child, depth);
  };
  const element = (node, depth) => {
    const name = nameOf(node);
    if (isFrame(node, name)) return void frame(node, name, depth);
    const display = attempt(() => styleOf(node).display, "none");
    if (display === "none") return;
    const block = isBlock(display);
    if (block) breakLine();
    const shadow = shadowOf(node);
    const assigned = name === "slot" ? attempt(() => HTMLSlotElement.prototype.assignedNodes.call(node), []) : [];
    if (shadow) children(shadow, depth + 1);
    else if (assigned.length > 0) for (const child of assigned) read(child, depth + 1);
    else children(node, depth + 1);
    if (block) breakLine();
  };
  const read = (node, depth) => {
    if (length >= limit || depth > DEPTH) return;
    const type = typeOf(node);
    if (type === 3) {
      const words = textOf(node).replace(/\s+/g, " ");
      if (words === " " ? !endsLine() : words) add(endsLine() ? words.trimStart() : words);
    } else if (type === 1) {
      if (special.has(node)) return void element(node, depth);
      if (nameOf(node) === "br") return void add("\n");
      const display = attempt(() => styleOf(node).display, "none");
      if (display === "contents") return void children(node, depth + 1);
      if (display === "none" || !isVisible(node)) return;
      const block = isBlock(display);
      if (block) breakLine();
      add(namespaceOf(node) === HTML ? innerText(node) : textOf(node).replace(/\s+/g, " "));
      if (block) breakLine();
    }
  };
  const page = (root, depth) => {
    if (depth > DEPTH) return;
    find(root, Document, 0);
    const body = bodyOf(root);
    if (!body) return;
    if (special.has(body) || nameOf(body) === "frameset") element(body, depth);
    else add(innerText(body));
  };
  page(document, 0);
  return parts;
}
