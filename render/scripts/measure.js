// How large the page is, in CSS pixels, and what it calls itself.
() => {
  "use strict";
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => (node ? get.call(node) : undefined);
  };
  const height = reader(Element, "scrollHeight");
  const body = reader(Document, "body")(document);
  const root = reader(Document, "documentElement")(document);
  return {
    height: Math.max(height(body) || 0, height(root) || 0),
    viewport: innerHeight,
    title: String(reader(Document, "title")(document) || "").slice(0, 1000),
  };
}
