// Returns the evidence for a page's class: counts, headings, overlays. All values are bounded.
(selectors, needles, wantText) => {
  "use strict";
  const LIMIT = 200;
  const CANVASES = 20;
  const PROBE = 32;
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => get.call(node);
  };
  const bodyOf = reader(Document, "body");
  const rootOf = reader(Document, "documentElement");
  const nameOf = reader(Element, "localName");
  const parentOf = reader(Node, "parentNode");
  const textOf = reader(Node, "textContent");
  const innerText = reader(HTMLElement, "innerText");
  const shadowOf = reader(Element, "shadowRoot");
  const hostOf = reader(ShadowRoot, "host");
  const childrenOf = reader(DocumentFragment, "children");
  const attribute = (node, name) => Element.prototype.getAttribute.call(node, name);
  const all = (selector) => Document.prototype.querySelectorAll.call(document, selector);
  const box = (node) => Element.prototype.getBoundingClientRect.call(node);
  const short = (text, limit) => String(text || "").slice(0, limit);
  const seen = (node, side) => {
    const { width, height } = box(node);
    return width >= side && height >= side;
  };
  const first = (nodes, test) => {
    let count = 0;
    for (let at = 0; at < nodes.length && at < LIMIT; at += 1) if (test(nodes[at])) count += 1;
    return count;
  };

  // Elements without content: canvases of one colour, loading indicators and placeholders without text.
  const shareOf = (node) => {
    const { bottom, left, right, top } = box(node);
    const [wide, high] = [Math.min(right, innerWidth) - Math.max(left, 0), Math.min(bottom, innerHeight) - Math.max(top, 0)];
    return (Math.max(wide, 0) * Math.max(high, 0)) / (innerWidth * innerHeight);
  };
  const isPlain = (canvas) => {
    const probe = Document.prototype.createElement.call(document, "canvas");
    probe.width = probe.height = PROBE;
    try {
      const context = probe.getContext("2d");
      context.drawImage(canvas, 0, 0, PROBE, PROBE);
      const points = new Uint32Array(context.getImageData(0, 0, PROBE, PROBE).data.buffer);
      return points.every((point) => point === points[0]);
    } catch {
      // It has no size, or contains cross-origin images.
      return false;
    }
  };
  const plain = new Set([...all("canvas")].slice(0, CANVASES).filter((node) => shareOf(node) > 0.02 && isPlain(node)));
  const isBusy = (node) =>
    Element.prototype.checkVisibility.call(node, { opacityProperty: true, visibilityProperty: true }) &&
    textOf(node).trim().length < 3 &&
    !Element.prototype.querySelector.call(node, "img, video, iframe");
  const busy = [...all(include("busy")())].slice(0, LIMIT).filter(isBusy);
  const sum = (nodes) => Math.min([...nodes].reduce((share, node) => share + shareOf(node), 0), 1);

  const isPicture = (node) => {
    if (!seen(node, 24) || plain.has(node)) return false;
    // Exclude images that did not load.
    if (nameOf(node) !== "img") return true;
    return reader(HTMLImageElement, "naturalWidth")(node) > 1;
  };
  let pictures = first(all("img, svg, canvas, picture, input[type=image]"), isPicture);
  if (!pictures) {
    const painted = (node) => seen(node, 24) && getComputedStyle(node).backgroundImage.includes("url(");
    const body = bodyOf(document);
    const some = [rootOf(document), ...(body ? all("body, body > *, body > * > *") : [])];
    pictures = first(some.filter(Boolean).slice(0, 60), painted);
  }
  const frames = [];
  for (const node of all("iframe, frame")) {
    if (frames.length >= 30) break;
    if (seen(node, 24)) frames.push(short(attribute(node, "src"), 2000));
  }
  const headings = [];
  for (const node of all("h1, h2, [role=heading]")) {
    if (headings.length >= 6) break;
    const text = seen(node, 1) ? short(textOf(node), 300).trim() : "";
    if (text) headings.push(text);
  }

  // Overlays, found by probing the viewport at the points of a grid.
  const floats = (node) => {
    for (let depth = 0; node && depth < 40; depth += 1) {
      if (node instanceof Element) {
        const { position, zIndex } = getComputedStyle(node);
        if (position === "fixed" || nameOf(node) === "dialog") return node;
        if (position === "absolute" && Number(zIndex) >= 100) return node;
      }
      const parent = parentOf(node);
      node = parent instanceof ShadowRoot ? hostOf(parent) : parent;
    }
    return null;
  };
  const overlays = new Map();
  const known = new Map();
  let covered = 0;
  const grid = 6;
  for (let x = 0; x < grid; x += 1) {
    for (let y = 0; y < grid; y += 1) {
      const left = ((x + 0.5) * innerWidth) / grid;
      const top = ((y + 0.5) * innerHeight) / grid;
      let node = Document.prototype.elementFromPoint.call(document, left, top);
      for (let depth = 0; node && shadowOf(node) && depth < 20; depth += 1) {
        const inner = ShadowRoot.prototype.elementFromPoint.call(shadowOf(node), left, top);
        if (!inner || inner === node) break;
        node = inner;
      }
      if (!node) continue;
      if (!known.has(node)) known.set(node, floats(node));
      const above = known.get(node);
      if (!above) continue;
      covered += 1;
      overlays.set(above, (overlays.get(above) || 0) + 1);
    }
  }
  let overlayText = "";
  for (const node of overlays.keys()) {
    if (overlayText.length > 20000) break;
    const inside = shadowOf(node) ? [...childrenOf(shadowOf(node))] : [];
    for (const part of [node, ...inside]) {
      if (!(part instanceof HTMLElement) || nameOf(part) === "style") continue;
      overlayText += `${short(innerText(part), 20000)}\n`;
    }
  }

  const marks = [];
  for (const [name, selector] of Object.entries(selectors)) {
    if (Document.prototype.querySelector.call(document, selector)) marks.push(name);
  }
  let paywalled = false;
  let read = 0;
  const found = new Set();
  for (const node of all("script:not([src])")) {
    if (read > 200000) break;
    const text = short(textOf(node), 50000);
    read += text.length;
    if (attribute(node, "type") === "application/ld+json") {
      paywalled ||= /"isAccessibleForFree"\s*:\s*"?false/i.test(text);
    }
    for (const needle of needles) if (text.includes(needle)) found.add(needle);
  }
  const robots = [];
  for (const node of all("meta[name=robots i], meta[name=googlebot i]")) {
    if (robots.length < 5) robots.push(short(attribute(node, "content"), 200));
  }
  const body = bodyOf(document);
  return {
    text: wantText && body ? short(innerText(body), 50000) : "",
    headings,
    links: all("a[href]").length,
    passwords: first(all("input[type=password i]"), (node) => seen(node, 1)),
    fields: first(all("input:not([type=hidden]), textarea, select, button"), (node) => seen(node, 1)),
    pictures,
    media: first(all("video, audio, object, embed"), (node) => seen(node, 1)),
    frames,
    is_frameset: Boolean(body) && nameOf(body) === "frameset",
    overlay_share: covered / (grid * grid),
    overlay_text: short(overlayText, 20000),
    busy_share: sum(busy),
    plain_share: sum(plain),
    marks,
    needles: [...found],
    robots: robots.join(", "),
    is_paywalled: paywalled,
  };
}
