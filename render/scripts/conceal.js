// Hides elements while pictures are taken: "on" with their selectors, then "off". The document keeps
// every one of its nodes and attributes; only a sheet of ours comes and goes, in shadow trees, too.
(how, selectors) => {
  "use strict";
  const sheets = (type) => Object.getOwnPropertyDescriptor(type.prototype, "adoptedStyleSheets");
  const shadowOf = Object.getOwnPropertyDescriptor(Element.prototype, "shadowRoot").get;
  if (!Object.hasOwn(globalThis, "weboidConcealed")) globalThis.weboidConcealed = [];
  const put = (root, type, sheet) => {
    const { get, set } = sheets(type);
    set.call(root, [...get.call(root), sheet]);
    globalThis.weboidConcealed.push([root, type, sheet]);
  };
  for (const [root, type, sheet] of globalThis.weboidConcealed.splice(0)) {
    const { get, set } = sheets(type);
    set.call(root, [...get.call(root)].filter((each) => each !== sheet));
  }
  if (how !== "on") return;
  // One selector that is wrong must not undo the others.
  const rules = selectors.slice(0, 200).map((selector) => `${selector} { display: none !important }`);
  const make = (more) => {
    const sheet = new CSSStyleSheet();
    for (const rule of [...rules, ...more]) {
      try {
        sheet.insertRule(rule);
      } catch {
        continue;
      }
    }
    return sheet;
  };
  // What is hidden often held the page still.
  put(document, Document, make(["html, body { overflow: visible !important; filter: none !important }"]));
  const shadows = make([]);
  for (const node of Document.prototype.querySelectorAll.call(document, "*")) {
    const shadow = shadowOf.call(node);
    if (shadow) put(shadow, ShadowRoot, shadows);
  }
}
