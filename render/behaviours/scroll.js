// Scroll down, slowly enough for lazy loading; then scroll boxes within the page; finally return to the top.
// Called again with `from` as long as the page grows, with `inner` for boxes within the page as long as
// `next` is true, and last with `back`.
async (options, tools) => {
  "use strict";
  const { attribute, body, box, drawn, due, find, height, left, nameOf, pause, query, reader } = tools;
  const { root, roots, scrollHeightOf, style } = tools;
  const pixels = options.scrollPx || 60000;
  const clientHeight = reader(Element, "clientHeight");
  const clientWidth = reader(Element, "clientWidth");
  const scrollWidth = reader(Element, "scrollWidth");
  const scrollBox = (node, top, side) =>
    Element.prototype.scrollTo.call(node, { top, left: side, behavior: "instant" });
  const DWELL_MS = 400;
  let futileWaits = 0;
  const partCount = () => everything.length + performance.getEntriesByType("resource").length;
  // In a large document the search takes longer than a step: repeated only when the number of elements changed.
  const everything = Document.prototype.getElementsByTagName.call(document, "*");
  let [lazy, elements] = [[], -1];
  // Shared by all calls of one scroll: its start, and the number of timers awaited without effect.
  const KEY = "weboid scroll";
  if (!Object.hasOwn(globalThis, KEY) || !(options.from || options.back || options.inner !== undefined)) {
    globalThis[KEY] = { began: performance.now(), parts: partCount(), idle: 0, boxes: [] };
  }
  const memory = globalThis[KEY];
  if (options.from) memory.idle = 0;
  // Return whether the document is unchanged since the scroll began, as observed by rest.js.
  const isUnchanged = () => {
    const rest = globalThis["weboid rest"];
    return Boolean(rest?.live) && rest.changed < memory.began && partCount() === memory.parts;
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
  // Return whether the page is complete: only text and loaded images, no empty or hidden element that a script may
  // fill or show, no observer and no repeated timer. Such pages are scrolled by the first steps and then to the end.
  const isPlain = () => {
    let activity = 1;
    const onTick = (event) => (activity = event.detail);
    addEventListener("weboid-tick", onTick);
    dispatchEvent(new Event("weboid-ticks"));
    removeEventListener("weboid-tick", onTick);
    if (activity !== 0 || roots().length > 1 || find(WAITING, 1).length) return false;
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
        // An empty element, or the only content of its parent.
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
  const MIN_STEPS = 2;
  const PLAIN_MS = 300;
  const WAITING =
    "iframe, frame, object, embed, canvas, video, audio, picture, [loading], [data-src], [data-srcset], [data-lazy], " +
    "[data-lazy-src], [data-original], [data-bg], [style*='url('], [aria-busy=true], [class*=lazy i], [class*=placeholder i], " +
    "[class*=skeleton i], [class*=spinner i], [class*=loading i]";
  // Return the length of the next step for a viewport of that height.
  const stride = (steps, screen, rest) =>
    steps >= MIN_STEPS && rest > screen && isUnchanged() && (memory.plain ??= isPlain()) ? rest : screen * 0.75;
  // Wait for lazy loaders; some act only after scrolling has paused.
  const awaitLoaders = async () => {
    // IntersectionObserver callbacks run after the frame.
    await drawn(1);
    await pause(25);
    for (let turn = 0; turn < 6 && futileWaits < 3 && waiting(); turn += 1) {
      await pause(50);
      if (turn === 5) futileWaits += 1;
    }
    // Some loaders set a timer, and load only what is still in view when it fires.
    const wait = memory.idle < 2 ? due() : 0;
    if (wait === 0 || wait > DWELL_MS) return;
    const before = partCount();
    await pause(wait + 10);
    await drawn();
    memory.idle = partCount() === before ? memory.idle + 1 : 0;
  };

  // Banners that disable scrolling keep the rest of the page from loading.
  const unlocked = [];
  const enableScrolling = () => {
    for (const node of [root(), body()]) {
      if (!node) continue;
      const has = style(node);
      const fixed = node === body() && has.position === "fixed";
      if (!/hidden|clip/.test(has.overflowY) && !fixed) continue;
      unlocked.push([node, attribute(node, "style")]);
      const inline = reader(HTMLElement, "style")(node);
      inline.setProperty("overflow", "visible", "important");
      if (fixed) inline.setProperty("position", "static", "important");
      if (has.height !== "auto" && clientHeight(node) <= innerHeight) {
        inline.setProperty("height", "auto", "important");
      }
    }
  };
  const restoreStyles = () => {
    for (const [node, was] of unlocked) {
      if (was === null) Element.prototype.removeAttribute.call(node, "style");
      else Element.prototype.setAttribute.call(node, "style", was);
    }
  };

  const down = async () => {
    let at = options.from || 0;
    let steps = 0;
    // If the page grows meanwhile, the rest is scrolled in another round.
    const goal = Math.min(height(), pixels);
    while (left() > 0 && at + innerHeight < goal) {
      at = Math.min(at + stride(steps, innerHeight, goal - innerHeight - at), goal - innerHeight);
      scrollTo({ top: at, behavior: "instant" });
      steps += 1;
      await awaitLoaders();
    }
    return [at, steps, goal];
  };
  // Return scrollable boxes within the page, largest first. A call ends when a box reached its end, since it
  // may grow then, or when all are done.
  const boxes = () => {
    const found = [];
    let count = 0;
    const began = performance.now();
    for (const node of find("*", 20000)) {
      count += 1;
      if (count % 200 === 0 && performance.now() - began > 30) break;
      const tall = clientHeight(node);
      const wide = clientWidth(node);
      if (tall < 100 || wide < 100 || node === root() || node === body()) continue;
      const deep = scrollHeightOf(node) - tall;
      const long = scrollWidth(node) - wide;
      if (deep < 50 && long < 50) continue;
      const has = style(node);
      const isVertical = deep >= 50 && /auto|scroll/.test(has.overflowY);
      const isHorizontal = long >= 50 && /auto|scroll/.test(has.overflowX);
      if (isVertical || isHorizontal) found.push({ node, isVertical, isHorizontal, area: tall * wide, at: 0, turns: 0, end: 0 });
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
      if (box.isVertical && box.turns < 60 && scrollHeightOf(node) > box.end) {
        while (box.turns < 60 && left() > 0 && box.at < goal()) {
          box.at = Math.min(box.at + stride(box.turns, clientHeight(node), goal() - box.at), goal());
          box.turns += 1;
          scrollBox(node, box.at, 0);
          steps += 1;
          await awaitLoaders();
        }
        box.end = scrollHeightOf(node);
        if (!options.alone) return [steps, true];
        await pause(120);
        continue;
      }
      for (let step = 0, side = 0; box.isHorizontal && step < 8 && left() > 0; step += 1) {
        if (side + clientWidth(node) >= scrollWidth(node)) break;
        side += clientWidth(node) * 0.75;
        scrollBox(node, box.back[0], side);
        steps += 1;
        await awaitLoaders();
      }
      scrollBox(node, ...box.back);
      open.shift();
    }
    return [steps, false];
  };

  if (options.back) {
    scrollTo({ top: 0, behavior: "instant" });
    await awaitLoaders();
    // Run again unless nothing changed and no timer is pending.
    return { found: 0, done: 0, at: 0, again: !isUnchanged() || (due() > 0 && memory.idle < 2) };
  }
  if (options.inner !== undefined) {
    const [steps, next] = await inner();
    return { found: steps, done: steps, again: steps > 0, next };
  }
  enableScrolling();
  const [at, steps, goal] = await down();
  let within = 0;
  if (!steps && options.alone) [within] = await inner();
  if (!steps || options.alone) scrollTo({ top: options.from && !options.alone ? at : 0, behavior: "instant" });
  restoreStyles();
  const overflow = steps > 0 && unlocked.length > 0;
  return {
    found: steps + within, done: steps + within, again: steps + within > 0, at, height: goal, steps,
    css: overflow ? "html, body { overflow: visible !important; position: static !important; height: auto !important }" : "",
  };
}
