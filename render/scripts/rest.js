// Tests whether the page has settled; called repeatedly, observations are kept between calls.
//
// Returns when the page has been unchanged for `quietMs`, or after `sliceMs`; a page that does not answer
// by then hangs. Unchanged means: no changes of DOM and layout, fonts loaded, visible images decoded.
// After `patienceMs` repeated changes of the same few nodes (a clock, a carousel, a scripted animation)
// are ignored, but not new content. `restart` restarts that time. A page without scripts is settled at
// once; one without pending requests (`awaits`) and databases, when its event loop has been idle.
(quietMs, sliceMs, patienceMs, scripted, restart, awaits) => {
  "use strict";
  const NODES = 50000; // searched for shadow roots and frames
  const RECORDS = 2000; // mutation records read per batch
  const IMAGES = 500;
  const ANIMATIONS = 100;
  const HEAVY_MS = 50;
  const LARGE_PX = 100000; // smaller images are decoded when painted
  const FEW = 3;
  const TICK_MS = 40;
  const FRAMES = 2; // rendered since the last change
  const IDLE = 2; // idle periods of the event loop since the last change
  const SHORT = 0.4; // fraction of quietMs
  const LONG = 4; // multiple of quietMs after which frames are not awaited
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
    // Databases and caches respond without a request or a timer.
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
    // New content makes nodes grow; what is replaced repeatedly keeps its size.
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
    // Return whether the page can still change: it has scripts, or documents that may have some.
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
    let count = 0;
    for (const image of imagesOf(document)) {
      count += 1;
      if (count > IMAGES) break;
      if (state.decoded.has(image)) continue;
      const complete = reader(HTMLImageElement, "complete")(image);
      if (!inView(image)) continue;
      if (!complete) {
        pending += 1;
        continue;
      }
      state.decoded.add(image);
      const width = reader(HTMLImageElement, "naturalWidth")(image);
      if (width * reader(HTMLImageElement, "naturalHeight")(image) < LARGE_PX) continue;
      state.decoding += 1;
      const ready = () => (state.decoding -= 1);
      HTMLImageElement.prototype.decode.call(image).then(ready, ready);
    }
    return pending + state.decoding > 0;
  };
  const moving = (state) => {
    // With thousands of animations the query is slow, so it is not repeated.
    if (state.heavy) return false;
    const began = performance.now();
    // Only transitions and animations that end are awaited.
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
    // Return whether the page will navigate soon by a <meta> refresh.
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
    // Return whether there is little text or a loading indicator: pending timers probably load content.
    let count = 0;
    for (const node of every(document, BUSY)) {
      count += 1;
      if (count > 50) break;
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
    // Return whether timers fire: not in a sandbox without scripts, where <noscript> contains elements.
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
  const observe = () => {
    if (state.live || !canAct()) return;
    state.live = true;
    watch(state, document);
    attempt(() => state.shifts.observe({ type: "layout-shift" }), undefined);
  };

  return new Promise((resolve) => {
    const started = performance.now();
    const held = {};
    let before = started;
    let turn = 0;
    let frames = 0;
    let idle = 0;
    let watched = 0;
    // On a busy machine no frame may have been rendered, so that nothing could change.
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
      observe();
      const now = performance.now();
      const name = holder(state);
      if (name) state.changed = now;
      const why = name || (state.changed > before ? state.why : "quiet");
      held[why] = (held[why] || 0) + (now - before);
      before = now;
      if (state.live && (turn === 0 || state.changed > watched)) countFrames();
      const short = !awaits && !state.stores && idle >= IDLE && !every(document, "iframe, frame, object, embed").length;
      const quiet = state.live ? quietMs * (short ? SHORT : 1) : 0;
      const unchangedMs = now - Math.max(state.changed, started);
      const drawn = !state.live || frames >= FRAMES || unchangedMs >= LONG * quiet;
      if (!name && unchangedMs >= quiet && drawn) return answer(true, "");
      if (now - started >= sliceMs) return answer(false, name || state.why);
      const left = !name && unchangedMs < quiet ? quiet - unchangedMs : TICK_MS;
      const wait = Math.min(TICK_MS, left, sliceMs - (now - started));
      setTimeout(tick, Math.max(4, wait));
    };
    tick();
  });
}
