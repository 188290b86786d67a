// Visit the fragment routes (#/ and #!) of a single-page application that its links point to, so that their
// data is loaded; then return. One route per step.
async (options, tools) => {
  "use strict";
  const { address, attribute, find, reader } = tools;
  const KEY = "weboid routes";
  if (!options.step) {
    globalThis[KEY] = { home: location.href, seen: new Set([new URL(location.href).hash]), open: [], done: 0 };
  }
  const state = globalThis[KEY];
  const here = address(state.home);
  let found = 0;
  for (const node of find("a[href*='#']", 2000)) {
    if (!(node instanceof HTMLAnchorElement)) continue;
    const target = reader(HTMLAnchorElement, "href")(node);
    if (address(target) !== here) continue;
    const { hash } = new URL(target);
    if (!/^#(\/|!)/.test(hash) || hash.length > 1000 || state.seen.has(hash)) continue;
    if (options.words.barred.some((word) => hash.toLowerCase().split(/[^\p{L}]+/u).includes(word))) continue;
    state.seen.add(hash);
    found += 1;
    if (state.open.length < options.routes) state.open.push(hash);
  }
  if (state.open.length && state.done < options.routes) {
    location.hash = state.open.shift();
    state.done += 1;
    return { found, done: 1, again: true, next: true };
  }
  if (state.done && !state.returning) {
    state.returning = true;
    location.hash = new URL(state.home).hash;
    return { found, done: 0, again: true, next: true };
  }
  if (state.returning) history.replaceState(history.state, "", state.home); // removes an empty fragment
  return { found, done: 0, again: false };
}
