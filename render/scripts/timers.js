// Runs in the page's main world before its first script: reports pending timers.
//
// Reports through a binding in how many milliseconds the last timer of at most `patience` fires, and, with a
// leading plus, the last one of at most `longest`. The binding is deleted before the page can call it.
// Objects that a page may change later, such as prototypes, are not used. Repeated timers are not awaited.
(binding, patience, longest) => {
  "use strict";
  const report = globalThis[binding];
  if (typeof report !== "function") return;
  delete globalThis[binding];
  const SHORTEST = 20; // shorter timers fire within the quiet time anyway
  const REPEATS = 5;
  const PENDING = 500;
  const STEP = 25;
  const { apply } = Reflect;
  const { create } = Object;
  const { max, round } = Math;
  const source = Function.prototype.toString;
  const { includes } = String.prototype;
  const clock = performance;
  const read = Performance.prototype.now;
  const now = () => apply(read, clock, []);
  const pending = create(null);
  const repeats = create(null);
  let count = 0;
  let ticks = false; // whether a timer is repeated
  let left = 200; // messages per document
  const soon = { reported: 0, sign: "" };
  const late = { reported: 0, sign: "+" };
  const send = (kind, due) => {
    kind.reported = due;
    left -= 1;
    if (left >= 0) report(`${kind.sign}${round(max(due - now(), 0))}`);
  };
  const latest = (kind) => {
    const moment = now();
    let due = 0;
    for (const id in pending) {
      const timer = pending[id];
      if (timer.due <= moment) {
        delete pending[id];
        count -= 1;
      } else if (timer.kind === kind) due = max(due, timer.due);
    }
    return due;
  };
  const isExpiry = (text) => text.length < 100 && apply(includes, text, [".clearExpired()"]);
  const set = (id, handler, wait) => {
    const delay = typeof wait === "string" ? +wait : wait;
    if (typeof delay !== "number" || !(delay >= SHORTEST && delay <= longest)) return;
    const text = typeof handler === "function" ? apply(source, handler, []) : `${typeof handler}`;
    const key = `${delay} ${text.length}`;
    repeats[key] = (repeats[key] || 0) + 1;
    if (repeats[key] > REPEATS) ticks = true;
    if (repeats[key] > REPEATS) return;
    if (count >= PENDING) latest(soon);
    if (count >= PENDING) return;
    // MediaWiki writes its module store and deletes expired entries of its local storage 2000 ms after each view.
    const idle = delay > patience / 2 && (apply(includes, text, ["requestIdleCallback"]) || isExpiry(text));
    const kind = delay <= patience && !idle ? soon : late;
    const due = now() + delay;
    pending[id] = { due, kind, key };
    count += 1;
    if (due > kind.reported + STEP) send(kind, due);
  };
  const cleared = (id) => {
    if (typeof id !== "number" || pending[id] === undefined) return;
    const { due, kind, key } = pending[id];
    delete pending[id];
    count -= 1;
    if (repeats[key] > 0) repeats[key] -= 1; // a postponed (debounced) timer is not a repeated one
    if (due >= kind.reported - STEP && due > now()) send(kind, latest(kind));
  };
  // After user input, timers that are set again are not repeated ones: for example those of loaders.
  const onInput = () => {
    for (const key in repeats) delete repeats[key];
    left = max(left, 20);
  };
  for (const event of ["scroll", "pointerdown", "hashchange"]) {
    apply(EventTarget.prototype.addEventListener, globalThis, [event, onInput, { capture: true, passive: true }]);
  }
  // common.js queries in how many milliseconds the last timer fires.
  const [{ dispatchEvent }, Answer] = [EventTarget.prototype, CustomEvent];
  const sendDue = () => apply(dispatchEvent, globalThis, [new Answer("weboid-due", { detail: round(max(latest(soon) - now(), 0)) })]);
  apply(EventTarget.prototype.addEventListener, globalThis, ["weboid-timers", sendDue]);
  // scroll.py queries whether the page may poll its scroll position (1) or uses an IntersectionObserver (2).
  let observes = false;
  const sendTicks = () =>
    apply(dispatchEvent, globalThis, [new Answer("weboid-tick", { detail: (ticks ? 1 : 0) + (observes ? 2 : 0) })]);
  apply(EventTarget.prototype.addEventListener, globalThis, ["weboid-ticks", sendTicks]);
  const { prototype } = IntersectionObserver;
  prototype.observe = new Proxy(prototype.observe, {
    apply: (target, self, values) => {
      observes = true;
      return apply(target, self, values);
    },
  });
  const setting = {
    apply: (target, self, values) => {
      const id = apply(target, self, values);
      set(id, values[0], values[1]);
      return id;
    },
  };
  const clearing = {
    apply: (target, self, values) => {
      cleared(values[0]);
      return apply(target, self, values);
    },
  };
  globalThis.setTimeout = new Proxy(setTimeout, setting);
  globalThis.setInterval = new Proxy(setInterval, {
    apply: (target, self, values) => {
      ticks = true;
      return setting.apply(target, self, values);
    },
  });
  globalThis.clearTimeout = new Proxy(clearTimeout, clearing);
  globalThis.clearInterval = new Proxy(clearInterval, clearing);
}
