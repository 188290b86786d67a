// Collects elements that may have a closed shadow root, which only DevTools can open (render/page_frames.py).
//
// guard.js keeps roots of scripts open. Closed roots of markup are invisible to scripts: likely hosts are
// elements with custom names, and empty elements with a size. The same applies to an external shape in an
// SVG, which is in a user-agent root of `use`; one element per URL is queried.
// The elements are stored in `weboidHosts`, each only once; found roots are in `weboidClosed`, shapes in
// `weboidCopies`.
(limit) => {
  "use strict";
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => get.call(node);
  };
  // DOM, 4.9: elements of these names, and custom ones, may be hosts.
  const HOSTS = new Set("article aside blockquote body div footer h1 h2 h3 h4 h5 h6 header main nav p section span".split(" "));
  const HTML = "http://www.w3.org/1999/xhtml";
  const nameOf = reader(Element, "localName");
  const namespaceOf = reader(Element, "namespaceURI");
  const shadowOf = reader(Element, "shadowRoot");
  const firstOf = reader(Node, "firstChild");
  const FRAMES = {
    iframe: reader(HTMLIFrameElement, "contentDocument"),
    frame: reader(HTMLFrameElement, "contentDocument"),
    object: reader(HTMLObjectElement, "contentDocument"),
  };
  const own = (name, make) => (Object.hasOwn(globalThis, name) ? globalThis[name] : (globalThis[name] = make()));
  const closed = own("weboidClosed", () => new WeakMap());
  const queried = own("weboidAsked", () => new WeakSet());
  own("weboidCopies", () => new WeakMap());
  const addresses = own("weboidAddresses", () => new Set());
  const found = [];
  const mayHost = (node, name) => {
    if (name.includes("-")) return true;
    if (!HOSTS.has(name) || firstOf(node)) return false;
    const box = Element.prototype.getBoundingClientRect.call(node);
    return box.width > 0 && box.height > 0;
  };
  const addressOf = (node) => {
    const get = Element.prototype.getAttribute;
    return get.call(node, "href") ?? get.call(node, "xlink:href") ?? "";
  };
  const walk = (root, type, depth) => {
    for (const node of type.prototype.querySelectorAll.call(root, "*")) {
      if (found.length >= limit || depth > 50) return;
      const name = nameOf(node);
      const shadow = shadowOf(node) ?? closed.get(node);
      if (shadow) walk(shadow, DocumentFragment, depth + 1);
      else if (Object.hasOwn(FRAMES, name)) {
        const inner = FRAMES[name](node);
        if (inner) walk(inner, Document, depth + 10);
      } else if (name === "use") {
        const address = addressOf(node);
        if (queried.has(node) || addresses.has(address) || /^\s*(#|$)/.test(address)) continue;
        addresses.add(address);
        queried.add(node);
        found.push(node);
      } else if (!queried.has(node) && namespaceOf(node) === HTML && mayHost(node, name)) {
        queried.add(node);
        found.push(node);
      }
    }
  };
  walk(document, Document, 0);
  globalThis.weboidHosts = found;
  return found.length;
}
