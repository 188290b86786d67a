// Runs in the page's own world before its first script: what a timer will do is still to be seen.
//
// Tells through a binding in how many milliseconds the last timer fires that was set to at most
// `patience`, and with a plus before it the same of those up to `longest`. The binding is gone before the
// page could call it. Objects that a page may change later, prototypes above all, are
// never used here. A timer that is set repeatedly is a clock, and is not waited for.
(binding, patience, longest) => {
  "use strict";
  const tell = globalThis[binding];
  if (typeof tell !== "function") return;
  delete globalThis[binding];
  const SHORTEST = 20; // a quiet page is looked at for longer than this
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
  let ticks = false; // whether something is done again and again
  let left = 200; // messages that a document may cost
  const soon = { told: 0, sign: "" };
  const late = { told: 0, sign: "+" };
  const say = (kind, due) => {
    kind.told = due;
    left -= 1;
    if (left >= 0) tell(`${kind.sign}${round(max(due - now(), 0))}`);
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
    // A long delay before idle time is housekeeping, such as MediaWiki's store of modules (2000 ms).
    const idle = delay > patience / 2 && apply(includes, text, ["requestIdleCallback"]);
    const kind = delay <= patience && !idle ? soon : late;
    const due = now() + delay;
    pending[id] = { due, kind, key };
    count += 1;
    if (due > kind.told + STEP) say(kind, due);
  };
  const cleared = (id) => {
    if (typeof id !== "number" || pending[id] === undefined) return;
    const { due, kind, key } = pending[id];
    delete pending[id];
    count -= 1;
    if (repeats[key] > 0) repeats[key] -= 1; // what is put off again and again, as while scrolling, is no clock
    if (due >= kind.told - STEP && due > now()) say(kind, latest(kind));
  };
  // What a reader does sets timers again that are no clocks: those of loaders at the end of a list.
  const acted = () => {
    for (const key in repeats) delete repeats[key];
    left = max(left, 20);
  };
  for (const event of ["scroll", "pointerdown", "hashchange"]) {
    apply(EventTarget.prototype.addEventListener, globalThis, [event, acted, { capture: true, passive: true }]);
  }
  // Behaviours ask in how many milliseconds the last timer of a reader's act fires (common.js).
  const [{ dispatchEvent }, Answer] = [EventTarget.prototype, CustomEvent];
  const tellDue = () => apply(dispatchEvent, globalThis, [new Answer("weboid-due", { detail: round(max(latest(soon) - now(), 0)) })]);
  apply(EventTarget.prototype.addEventListener, globalThis, ["weboid-timers", tellDue]);
  // Whether a page may look for itself where it was scrolled to, 1, or observes what comes into sight, 2 (scroll.py).
  let observes = false;
  const tellTicks = () =>
    apply(dispatchEvent, globalThis, [new Answer("weboid-tick", { detail: (ticks ? 1 : 0) + (observes ? 2 : 0) })]);
  apply(EventTarget.prototype.addEventListener, globalThis, ["weboid-ticks", tellTicks]);
  const { prototype } = IntersectionObserver;
  prototype.observe = new Proxy(prototype.observe, {
    apply: (target, self, given) => {
      observes = true;
      return apply(target, self, given);
    },
  });
  const setting = {
    apply: (target, self, given) => {
      const id = apply(target, self, given);
      set(id, given[0], given[1]);
      return id;
    },
  };
  const clearing = {
    apply: (target, self, given) => {
      cleared(given[0]);
      return apply(target, self, given);
    },
  };
  globalThis.setTimeout = new Proxy(setTimeout, setting);
  globalThis.setInterval = new Proxy(setInterval, {
    apply: (target, self, given) => {
      ticks = true;
      return setting.apply(target, self, given);
    },
  });
  globalThis.clearTimeout = new Proxy(clearTimeout, clearing);
  globalThis.clearInterval = new Proxy(clearInterval, clearing);
}
