// Returns the page's size in CSS pixels, its title and its directives for robots.
() => {
  "use strict";
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => (node ? get.call(node) : undefined);
  };
  const height = reader(Element, "scrollHeight");
  const body = reader(Document, "body")(document);
  const root = reader(Document, "documentElement")(document);
  const attribute = (node, name) => Element.prototype.getAttribute.call(node, name);
  const robots = [];
  // The name of a <meta> can be any robot's; only directives about archiving are collected.
  for (const node of Document.prototype.querySelectorAll.call(document, "meta[content]")) {
    const content = attribute(node, "content");
    if (!/archive|cache|unavailable/i.test(content) || robots.length >= 100) continue;
    for (const [kind, prefix] of [["name", ""], ["http-equiv", "http-equiv:"]]) {
      const name = attribute(node, kind);
      if (name === null || name.length > 200) continue;
      robots.push([prefix + name.trim().toLowerCase(), content.slice(0, 2000)]);
    }
  }
  return {
    height: Math.max(height(body) || 0, height(root) || 0),
    viewport: innerHeight,
    scale: Math.min(Math.max(devicePixelRatio, 0.1), 10),
    title: String(reader(Document, "title")(document) || "").slice(0, 1000),
    robots,
  };
}
