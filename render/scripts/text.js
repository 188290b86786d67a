// What a reader sees as text: the body, then each shadow root's and each same-origin frame's part.
(limit) => {
  "use strict";
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => get.call(node);
  };
  const bodyOf = reader(Document, "body");
  const innerText = reader(HTMLElement, "innerText");
  const nameOf = reader(Element, "localName");
  const namespaceOf = reader(Element, "namespaceURI");
  const shadowOf = reader(Element, "shadowRoot");
  const frameOf = reader(HTMLIFrameElement, "contentDocument");
  const oldFrameOf = reader(HTMLFrameElement, "contentDocument");
  const childrenOf = reader(DocumentFragment, "children");
  const silent = new Set(["style", "script", "template", "slot"]);
  const parts = [];
  let length = 0;
  const add = (text) => {
    if (!text || length >= limit) return;
    parts.push(text.slice(0, limit - length));
    length += text.length;
  };
  const below = (root, type, depth) => {
    for (const node of type.prototype.querySelectorAll.call(root, "*")) {
      if (length >= limit || depth > 50) return;
      const shadow = shadowOf(node);
      if (shadow) {
        for (const child of childrenOf(shadow)) {
          const html = namespaceOf(child) === "http://www.w3.org/1999/xhtml";
          if (html && !silent.has(nameOf(child))) add(innerText(child));
        }
        below(shadow, DocumentFragment, depth + 1);
      }
      const name = nameOf(node);
      if (name !== "iframe" && name !== "frame") continue;
      const inner = (name === "iframe" ? frameOf : oldFrameOf)(node);
      if (inner) page(inner, depth + 10);
    }
  };
  const page = (root, depth) => {
    const body = bodyOf(root);
    if (body) add(innerText(body));
    below(root, Document, depth);
  };
  page(document, 0);
  return parts.join("\n");
}
