// Absolute http(s) targets of links, in order, each once; fragments gone except "#!" ones.
// Frames of the same origin and shadow roots count as part of the page.
(limit, urlLimit) => {
  "use strict";
  // Getters from the prototypes: a form may hide any property behind an input of its name.
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => get.call(node);
  };
  const nameOf = reader(Element, "localName");
  const shadowOf = reader(Element, "shadowRoot");
  const frameOf = reader(HTMLIFrameElement, "contentDocument");
  const oldFrameOf = reader(HTMLFrameElement, "contentDocument");
  const baseOf = reader(Node, "baseURI");
  const attribute = (node, name) => Element.prototype.getAttribute.call(node, name);
  const found = new Set();
  const add = (node) => {
    const href = attribute(node, "href") ?? attribute(node, "xlink:href");
    if (href === null || href.length > urlLimit) return;
    let url;
    try {
      url = new URL(href, baseOf(node));
    } catch {
      return;
    }
    if (url.protocol !== "http:" && url.protocol !== "https:") return;
    if (!url.hash.startsWith("#!")) url.hash = "";
    if (url.href.length <= urlLimit) found.add(url.href);
  };
  const below = (root, type, depth) => {
    for (const node of type.prototype.querySelectorAll.call(root, "*")) {
      if (found.size >= limit || depth > 50) return;
      const name = nameOf(node);
      if (name === "a" || name === "area") add(node);
      const shadow = shadowOf(node);
      if (shadow) below(shadow, DocumentFragment, depth + 1);
      if (name === "iframe" || name === "frame") {
        const inner = (name === "iframe" ? frameOf : oldFrameOf)(node);
        if (inner) below(inner, Document, depth + 10);
      }
    }
  };
  below(document, Document, 0);
  return [...found];
}
