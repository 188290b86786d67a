// Scroll down, slowly enough that what loads on sight is seen, then what scrolls within the page; at
// the end back to the top. Called again with `from` as long as the page grows, with `inner` for boxes within
// the page as long as `next` is true, and last with `back`.
async (options, tools) => {
  "use strict";
  const { attribute, body, box, drawn, due, find, height, left, nameOf, pause, query, reader } = tools;
  const { root, roots, scrollHeightOf, style } = tools;
  const pixels = options.scrollPx || 60000;
  const clientHeight = reader(Element, "clientHeight");
  const clientWidth = reader(Element, "clientWidth");
  const scrollWidth = reader(Element, "scrollWidth");
  const leadTo = (node, top, side) =>
    Element.prototype.scrollTo.call(node, { top, left: side, behavior: "instant" });
  const DWELL_MS = 400;
  let futile = 0;
  const parts = () => everything.length + performance.getEntriesByType("resource").length;
  // In a large document a look for them takes longer than a step: only where elements came or went.
  const everything = Document.prototype.getElementsByTagName.call(document, "*");
  let [lazy, elements] = [[], -1];
  // What all calls of one scroll know: when it began, and waits for timers that brought nothing.
  const KEY = "weboid scroll";
  if (!Object.hasOwn(globalThis, KEY) || !(options.from || options.back || options.inner !== undefined)) {
    globalThis[KEY] = { began: performance.now(), parts: parts(), idle: 0, boxes: [] };
  }
  const memory = globalThis[KEY];
  if (options.from) memory.idle = 0;
  // Whether the document is as it was when the scroll began, as far as rest.js has observed it.
  const still = () => {
    const rest = globalThis["weboid rest"];
    return Boolean(rest?.live) && rest.changed < memory.began && parts() === memory.parts;
  };
  const waiting = () => {
    if (everything.length !== elements) {
      elements = everything.length;
      lazy = find("img[data-src], img[data-lazy-src], img[data-original], img[data-lazy], [data-bg]", 300);
    }
    return lazy.some((node) => {
      const { top, bottom, width } = box(node);
      if (bottom < 0 || top > innerHeight || width < 1) return false;
      if (node instanceof HTMLImageElement) {
        return !(reader(HTMLImageElement, "complete")(node) && reader(HTMLImageElement, "naturalWidth")(node) > 2);
      }
      return style(node).backgroundImage === "none";
    });
  };
  // Whether everything stands already: text, whole pictures, no empty box that a script may fill, nothing hidden that it
  // may show, no observer and no clock. There the listeners get the first steps and the end.
  const isPlain = () => {
    let told = 1;
    const hear = (event) => (told = event.detail);
    addEventListener("weboid-tick", hear);
    dispatchEvent(new Event("weboid-ticks"));
    removeEventListener("weboid-tick", hear);
    if (told !== 0 || roots().length > 1 || find(WAITING, 1).length) return false;
    const [began, first, only] = [performance.now(), reader(Node, "firstChild"), reader(Element, "childElementCount")];
    const [complete, natural] = [reader(HTMLImageElement, "complete"), reader(HTMLImageElement, "naturalWidth")];
    const [above, text] = [reader(Node, "parentElement"), reader(Node, "textContent")];
    for (const node of query("*", document)) {
      const name = nameOf(node);
      if (performance.now() - began > PLAIN_MS || name.includes("-")) return false;
      if (only(node) > 0 || !(node instanceof HTMLElement)) continue;
      const { width, height: tall } = box(node);
      if (name === "img" && (!complete(node) || natural(node) < 3 || width > 2 * natural(node))) return false;
      if (width < 8 || /^(img|input|select|textarea|button|[bhw]r)$/.test(name)) continue;
      if (!first(node)) {
        // An empty place, or one that holds nothing else.
        const parent = above(node);
        const isAlone = box(parent).height >= 24 && only(parent) < 5 && !text(parent).trim();
        if (tall >= 24 || isAlone || attribute(node, "id") || Object.keys(node.dataset).length) return false;
      } else if (tall >= 8) {
        if (!Element.prototype.checkVisibility.call(node, { opacityProperty: true, visibilityProperty: true })) return false;
        const words = text(node);
        if (words.length < 60 && /^\s*(loading|please wait)|(…|\.\.\.)\s*$/i.test(words)) return false;
      }
    }
    return true;
  };
  const STEPS = 2; // that every page gets
  const PLAIN_MS = 300;
  const WAITING =
    "iframe, frame, object, embed, canvas, video, audio, picture, [loading], [data-src], [data-srcset], [data-lazy], " +
    "[data-lazy-src], [data-original], [data-bg], [style*='url('], [aria-busy=true], [class*=lazy i], [class*=placeholder i], " +
    "[class*=skeleton i], [class*=spinner i], [class*=loading i]";
  // How far the next step goes, of a screen of that height.
  const stride = (steps, screen, rest) =>
    steps >= STEPS && rest > screen && still() && (memory.plain ??= isPlain()) ? rest : screen * 0.75;
  // Loaders that look only when scrolling has stopped for a moment are waited for, if there are any.
  const look = async () => {
    // Observers are called after the frame in which it came into sight.
    await drawn(1);
    await pause(25);
    for (let turn = 0; turn < 6 && futile < 3 && waiting(); turn += 1) {
      await pause(50);
      if (turn === 5) futile += 1;
    }
    // Others load only what stays in sight for a moment, and set a timer for it.
    const wait = memory.idle < 2 ? due() : 0;
    if (wait === 0 || wait > DWELL_MS) return;
    const before = parts();
    await pause(wait + 10);
    await drawn();
    memory.idle = parts() === before ? memory.idle + 1 : 0;
  };

  // A banner that forbids scrolling hides the rest of the page, from us and from its own loaders.
  const locked = [];
  const unlock = () => {
    for (const node of [root(), body()]) {
      if (!node) continue;
      const has = style(node);
      const fixed = node === body() && has.position === "fixed";
      if (!/hidden|clip/.test(has.overflowY) && !fixed) continue;
      locked.push([node, attribute(node, "style")]);
      const inline = reader(HTMLElement, "style")(node);
      inline.setProperty("overflow", "visible", "important");
      if (fixed) inline.setProperty("position", "static", "important");
      if (has.height !== "auto" && clientHeight(node) <= innerHeight) {
        inline.setProperty("height", "auto", "important");
      }
    }
  };
  const lock = () => {
    for (const [node, was] of locked) {
      if (was === null) Element.prototype.removeAttribute.call(node, "style");
      else Element.prototype.setAttribute.call(node, "style", was);
    }
  };

  const down = async () => {
    let at = options.from || 0;
    let steps = 0;
    // Growth of the page meanwhile is left to another round.
    const goal = Math.min(height(), pixels);
    while (left() > 0 && at + innerHeight < goal) {
      at = Math.min(at + stride(steps, innerHeight, goal - innerHeight - at), goal - innerHeight);
      scrollTo({ top: at, behavior: "instant" });
      steps += 1;
      await look();
    }
    return [at, steps, goal];
  };
  // Boxes that scroll within the page, the largest first. A call ends where one has reached its end, which
  // may make it grow, or when all are done.
  const boxes = () => {
    const found = [];
    let looked = 0;
    const began = performance.now();
    for (const node of find("*", 20000)) {
      looked += 1;
      if (looked % 200 === 0 && performance.now() - began > 30) break;
      const tall = clientHeight(node);
      const wide = clientWidth(node);
      if (tall < 100 || wide < 100 || node === root() || node === body()) continue;
      const deep = scrollHeightOf(node) - tall;
      const long = scrollWidth(node) - wide;
      if (deep < 50 && long < 50) continue;
      const has = style(node);
      const rolls = deep >= 50 && /auto|scroll/.test(has.overflowY);
      const slides = long >= 50 && /auto|scroll/.test(has.overflowX);
      if (rolls || slides) found.push({ node, rolls, slides, area: tall * wide, at: 0, turns: 0, end: 0 });
    }
    return found.sort((one, other) => other.area - one.area).slice(0, 8);
  };
  const inner = async () => {
    if (!options.inner) memory.boxes = boxes();
    const open = memory.boxes;
    let steps = 0;
    while (open.length && left() > 0) {
      const box = open[0];
      const { node } = box;
      box.back ??= [reader(Element, "scrollTop")(node), reader(Element, "scrollLeft")(node)];
      const goal = () => Math.min(scrollHeightOf(node), pixels) - clientHeight(node);
      if (box.rolls && box.turns < 60 && scrollHeightOf(node) > box.end) {
        while (box.turns < 60 && left() > 0 && box.at < goal()) {
          box.at = Math.min(box.at + stride(box.turns, clientHeight(node), goal() - box.at), goal());
          box.turns += 1;
          leadTo(node, box.at, 0);
          steps += 1;
          await look();
        }
        box.end = scrollHeightOf(node);
        if (!options.alone) return [steps, true];
        await pause(120);
        continue;
      }
      for (let step = 0, side = 0; box.slides && step < 8 && left() > 0; step += 1) {
        if (side + clientWidth(node) >= scrollWidth(node)) break;
        side += clientWidth(node) * 0.75;
        leadTo(node, box.back[0], side);
        steps += 1;
        await look();
      }
      leadTo(node, ...box.back);
      open.shift();
    }
    return [steps, false];
  };

  if (options.back) {
    scrollTo({ top: 0, behavior: "instant" });
    await look();
    // Whether nothing came of all this, and nothing will.
    return { found: 0, done: 0, at: 0, again: !still() || (due() > 0 && memory.idle < 2) };
  }
  if (options.inner !== undefined) {
    const [steps, next] = await inner();
    return { found: steps, done: steps, again: steps > 0, next };
  }
  unlock();
  const [at, steps, goal] = await down();
  let within = 0;
  if (!steps && options.alone) [within] = await inner();
  if (!steps || options.alone) scrollTo({ top: options.from && !options.alone ? at : 0, behavior: "instant" });
  lock();
  const overflow = steps > 0 && locked.length > 0;
  return {
    found: steps + within, done: steps + within, again: steps + within > 0, at, height: goal, steps,
    css: overflow ? "html, body { overflow: visible !important; position: static !important; height: auto !important }" : "",
  };
}
