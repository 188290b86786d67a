// Loads the page's icon, which a headless browser does not request, as an image of the page: with its cookies
// and policies, but without inserting it.
//
// "choose" returns its URL, or ""; "load" starts to load it; "wait" waits until it has loaded, and returns
// whether it did.
(what, url) => {
  "use strict";
  const attribute = (node, name) => Element.prototype.getAttribute.call(node, name);
  const baseOf = Object.getOwnPropertyDescriptor(Node.prototype, "baseURI").get;
  // Tabs and lists show up to 32 px on high-density screens: prefer the smallest icon of at least that size.
  const WANTED = 32;
  const score = (node) => {
    const sizes = (attribute(node, "sizes") ?? "").slice(0, 200).toLowerCase().split(/\s+/);
    const type = attribute(node, "type") ?? "";
    if (sizes.includes("any") || type.includes("svg")) return WANTED + 1;
    const widths = sizes.map((size) => parseInt(size, 10)).filter((width) => width > 0);
    if (widths.length === 0) return WANTED + 500;
    const enough = widths.filter((width) => width >= WANTED);
    return enough.length > 0 ? Math.min(...enough) : 10000 - Math.max(...widths);
  };
  const choose = () => {
    const links = Document.prototype.querySelectorAll.call(document, 'link[rel~="icon" i][href]');
    const known = [...links].slice(0, 50);
    known.sort((one, other) => score(one) - score(other));
    try {
      const url = known.length > 0 ? new URL(attribute(known[0], "href").slice(0, 8000), baseOf.call(known[0])) : new URL("/favicon.ico", location.href);
      url.hash = "";
      return url.protocol === "http:" || url.protocol === "https:" ? url.href : "";
    } catch {
      return "";
    }
  };
  if (what === "choose") return choose();
  if (what === "load") {
    const image = new Image();
    const ended = new Promise((done) => {
      image.onload = () => done(true);
      image.onerror = () => done(false);
    });
    image.src = url;
    globalThis.weboidIcon = { image, ended };
    return true;
  }
  return Object.hasOwn(globalThis, "weboidIcon") ? globalThis.weboidIcon.ended : false;
}
