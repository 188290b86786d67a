// Test whether the page is at rest, called repeatedly; observations are kept between calls.
//
// Returns when the page has been still for `quietMs`, or after `sliceMs`: a page that does not answer
// then hangs. Still means that the DOM and the layout do not change, fonts are loaded, and images in
// view are decoded. After `patienceMs` what only goes on changing the same few nodes (a clock, a
// carousel, an animation made by a script) counts as still; what brings news goes on counting.
// `restart` begins the patience again. A page where nothing can happen any more need not be still for a while first,
// and one that waits for no answer (`awaits`) of anyone, nor has a database, only until its loop has been idle.
(quietMs, sliceMs, patienceMs, scripted, restart, awaits) => {
  "use strict";
  const NODES = 50000; // looked at for shadow roots and frames
  const RECORDS = 2000; // of a batch that are read one by one
  const IMAGES = 500;
  const ANIMATIONS = 100;
  const HEAVY_MS = 50;
  const LARGE_PX = 100000; // smaller images are decoded while they are drawn
  const FEW = 3;
  const TICK_MS = 40;
  const FRAMES = 2; // drawn since the last change
  const IDLE = 2; // idle periods of the page's loop since the last change
  const SHORT = 0.4; // of the quiet
  const LONG = 4; // times the quiet: then frames are not drawn at all
  const FEW_CHARS = 400;
  const BUSY = include("busy")();
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => get.call(node);
  };
  const attempt = (action, otherwise) => {
    try {
      return action();
    } catch {
      return otherwise;
    }
  };
  const shadowOf = reader(Element, "shadowRoot");
  const nameOf = reader(Element, "localName");
  const typeOf = reader(Node, "nodeType");
  const childrenOf = reader(Node, "childNodes");
  const frameOf = reader(HTMLIFrameElement, "contentDocument");
  const dataOf = reader(CharacterData, "data");
  const imagesOf = reader(Document, "images");
  const fontsOf = reader(Document, "fonts");
  const attribute = (node, name) => Element.prototype.getAttribute.call(node, name);
  const every = (root, selector) =>
    (root instanceof Document ? Document : root instanceof Element ? Element : DocumentFragment)
      .prototype.querySelectorAll.call(root, selector);

  const begin = () => {
    const state = {
      began: performance.now(), changed: performance.now(), why: "dom", left: NODES, nodes: new WeakMap(),
      decoding: 0, decoded: new WeakSet(), observed: new WeakSet(), restless: new Set(), live: false, heavy: false,
      stores: true,
    };
    // Databases and caches answer without a request or a timer.
    const lists = [() => IDBFactory.prototype.databases.call(indexedDB)];
    if (globalThis.caches) lists.push(() => CacheStorage.prototype.keys.call(caches));
    const count = (listed) => (state.stores = listed.some((each) => each.length > 0));
    attempt(() => Promise.all(lists.map((list) => list())).then(count, () => {}), undefined);
    const late = () => performance.now() - state.began > patienceMs;
    const note = (why) => {
      state.changed = performance.now();
      state.why = why;
    };
    state.observer = new MutationObserver((records) => {
      const nodes = new Set();
      let news = !late() || records.length > RECORDS;
      for (const record of records.slice(0, RECORDS)) {
        nodes.add(record.target);
        for (const added of record.addedNodes) if (typeOf(added) === 1) watchBelow(state, added);
      }
      for (const node of nodes) news = isNews(state, node) || news;
      if (news) note("dom");
      else state.restless.add("dom");
    });
    state.shifts = new PerformanceObserver((list) => {
      if (!list.getEntries().some((entry) => entry.value > 0)) return;
      if (late()) state.restless.add("layout");
      else note("layout");
    });
    return state;
  };
  const isNews = (state, node) => {
    // Sizes grow as a page goes on writing; what comes and goes stays as large as it was.
    const type = typeOf(node);
    const size = type === 3 ? dataOf(node).length : childrenOf(node).length;
    const before = state.nodes.get(node) || { times: 0, size: 0 };
    state.nodes.set(node, { times: before.times + 1, size: Math.max(size, before.size) });
    return before.times < FEW || size > before.size;
  };
  const watch = (state, root) => {
    if (state.observed.has(root)) return;
    state.observed.add(root);
    state.observer.observe(root, { childList: true, subtree: true, attributes: true, characterData: true });
    watchBelow(state, root);
  };
  const watchBelow = (state, root) => {
    const own = root instanceof Element ? [root] : [];
    for (const nodes of [own, every(root, "*")]) {
      for (const node of nodes) {
        state.left -= 1;
        if (state.left < 0) return;
        const shadow = shadowOf(node);
        if (shadow) watch(state, shadow);
        if (nameOf(node) !== "iframe") continue;
        const inner = attempt(() => frameOf(node), null);
        if (inner) watch(state, inner);
      }
    }
  };
  const canAct = () => {
    // Anything that could still do something by itself: scripts, or documents that may have some.
    if (scripted) return true;
    if (every(document, "iframe, frame, object, embed, body[onload], img[onload], img[onerror]").length) return true;
    for (const node of every(document, "script")) {
      if (/^\s*$|javascript|ecmascript|jscript|module/i.test(attribute(node, "type") || "")) return true;
    }
    return false;
  };
  const fontsPending = () => attempt(() => fontsOf(document).status === "loading", false);
  const inView = (image) => {
    const box = Element.prototype.getBoundingClientRect.call(image);
    return box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth;
  };
  const imagesPending = (state) => {
    let pending = 0;
    let looked = 0;
    for (const image of imagesOf(document)) {
      looked += 1;
      if (looked > IMAGES) break;
      if (state.decoded.has(image)) continue;
      const complete = reader(HTMLImageElement, "complete")(image);
      if (!inView(image)) continue;
      if (!complete) {
        pending += 1;
        continue;
      }
      state.decoded.add(image);
      const wide = reader(HTMLImageElement, "naturalWidth")(image);
      if (wide * reader(HTMLImageElement, "naturalHeight")(image) < LARGE_PX) continue;
      state.decoding += 1;
      const ready = () => (state.decoding -= 1);
      HTMLImageElement.prototype.decode.call(image).then(ready, ready);
    }
    return pending + state.decoding > 0;
  };
  const moving = (state) => {
    // A page with thousands of them is asked once: each answer makes it compute them all.
    if (state.heavy) return false;
    const began = performance.now();
    // Transitions and animations that come to an end; the others have none to wait for.
    const all = attempt(() => Document.prototype.getAnimations.call(document), []);
    state.heavy = performance.now() - began > HEAVY_MS || all.length > 10 * ANIMATIONS;
    for (const animation of all.slice(0, ANIMATIONS)) {
      if (animation.playState !== "running" || !(animation.timeline instanceof DocumentTimeline)) continue;
      const left = attempt(() => animation.effect.getComputedTiming().endTime - animation.currentTime, Infinity);
      if (left > 0 && left < patienceMs) return true;
    }
    return false;
  };
  const leaving = () => {
    // A refresh soon leads elsewhere.
    for (const node of every(document, "meta[http-equiv]")) {
      if (attribute(node, "http-equiv").toLowerCase() !== "refresh") continue;
      const delay = parseFloat(attribute(node, "content"));
      if (delay * 1000 <= patienceMs) return true;
    }
    return false;
  };
  const shown = (node) => {
    if (!Element.prototype.checkVisibility.call(node, { opacityProperty: true, visibilityProperty: true })) return false;
    const box = Element.prototype.getBoundingClientRect.call(node);
    return box.width * box.height > 0 && box.bottom > 0 && box.top < innerHeight;
  };
  const unfinished = () => {
    // Hardly a word, or a sign that more is to come: what timers still do is probably the page.
    let looked = 0;
    for (const node of every(document, BUSY)) {
      looked += 1;
      if (looked > 50) break;
      if (shown(node)) return true;
    }
    const root = reader(Document, "body")(document);
    if (!root || nameOf(root) !== "body") return false;
    const words = Document.prototype.createTreeWalker.call(document, root, NodeFilter.SHOW_TEXT);
    let length = 0;
    for (let node = words.nextNode(); node && length < FEW_CHARS; node = words.nextNode()) {
      const parent = reader(Node, "parentElement")(node);
      if (parent && !/^(script|style|noscript|template)$/.test(nameOf(parent))) length += dataOf(node).trim().length;
    }
    return length < FEW_CHARS;
  };
  const holder = (state) => {
    const late = performance.now() - state.began > patienceMs;
    if (fontsPending()) return "fonts";
    if (imagesPending(state)) return "images";
    if (!late && moving(state)) return "layout";
    if (!late && leaving()) return "refresh";
    return "";
  };

  const timersRun = () => {
    // Where a sandbox lets no script run, our timers never fire; there, <noscript> holds elements.
    return attempt(() => {
      const probe = Document.prototype.createElement.call(document, "div");
      const { set } = Object.getOwnPropertyDescriptor(Element.prototype, "innerHTML");
      set.call(probe, "<noscript><b></b></noscript>");
      return every(probe, "b").length === 0;
    }, true);
  };
  if (!timersRun()) return { rested: true, now: "", held: {}, restless: [], unfinished: false, inert: true };

  const KEY = "weboid rest";
  const state = (globalThis[KEY] ||= begin());
  if (restart) {
    state.began = performance.now();
    state.nodes = new WeakMap();
    state.restless.clear();
  }
  const arrange = () => {
    if (state.live || !canAct()) return;
    state.live = true;
    watch(state, document);
    attempt(() => state.shifts.observe({ type: "layout-shift" }), undefined);
  };

  return new Promise((resolve) => {
    const asked = performance.now();
    const held = {};
    let before = asked;
    let turn = 0;
    let frames = 0;
    let idle = 0;
    let watched = 0;
    // On a busy machine a moment may pass in which nothing was drawn, and so nothing could change.
    const countFrames = () => {
      const own = (turn += 1);
      const next = () => {
        if (own !== turn) return;
        frames += 1;
        if (frames < FRAMES) requestAnimationFrame(next);
      };
      const rested = () => {
        if (own !== turn) return;
        idle += 1;
        if (idle < IDLE) requestIdleCallback(rested);
      };
      [frames, idle] = [0, 0];
      watched = state.changed;
      requestAnimationFrame(next);
      requestIdleCallback(rested);
    };
    const answer = (rested, now) =>
      resolve({ rested, now, held, restless: [...state.restless], unfinished: state.live && unfinished(), inert: false });
    const tick = () => {
      arrange();
      const now = performance.now();
      const name = holder(state);
      if (name) state.changed = now;
      const why = name || (state.changed > before ? state.why : "quiet");
      held[why] = (held[why] || 0) + (now - before);
      before = now;
      if (state.live && (turn === 0 || state.changed > watched)) countFrames();
      const short = !awaits && !state.stores && idle >= IDLE && !every(document, "iframe, frame, object, embed").length;
      const quiet = state.live ? quietMs * (short ? SHORT : 1) : 0;
      const still = now - Math.max(state.changed, asked);
      const drawn = !state.live || frames >= FRAMES || still >= LONG * quiet;
      if (!name && still >= quiet && drawn) return answer(true, "");
      if (now - asked >= sliceMs) return answer(false, name || state.why);
      const left = !name && still < quiet ? quiet - still : TICK_MS;
      const wait = Math.min(TICK_MS, left, sliceMs - (now - asked));
      setTimeout(tick, Math.max(4, wait));
    };
    tick();
  });
}
