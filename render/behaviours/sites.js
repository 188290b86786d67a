// Click elements of known platforms, by the rules of sites.toml. Each step clicks every new element of
// `press`, and one element of `repeat` per rule as long as content is added.
async (options, tools) => {
  "use strict";
  const { drawn, find, height, left, press, query, seen } = tools;
  const MAX_CLICKS = 200; // per page
  const KEY = "weboid sites";
  if (!options.step) {
    globalThis[KEY] = { pressed: new WeakSet(), counts: {}, useless: {}, repeats: 0, done: 0, was: "", before: "" };
  }
  const state = globalThis[KEY];
  const here = location.pathname + location.search;
  state.before ||= here;
  const size = `${height()} ${query("*", document).length}`;
  const grew = size !== state.was;
  state.was = size;
  let found = 0;
  let done = 0;
  const click = async (rule, node) => {
    press(node);
    done += 1;
    state.done += 1;
    state.counts[rule.name] = (state.counts[rule.name] || 0) + 1;
    await drawn();
  };
  const first = (selectors, limit) => (selectors.length ? find(selectors.join(","), limit).filter(seen) : []);
  for (const rule of here === state.before ? options.rule : []) {
    if (!find(rule.present.join(","), 1).length) continue;
    for (const selector of rule.press || []) {
      for (const node of first([selector], MAX_CLICKS)) {
        if (state.pressed.has(node) || state.done >= MAX_CLICKS || left() <= 0) continue;
        state.pressed.add(node);
        found += 1;
        await click(rule, node);
      }
    }
    const [node] = first(rule.repeat || [], 50);
    if (!node || left() <= 0 || height() >= options.scrollPx) continue;
    found += 1;
    state.useless[rule.name] = grew ? 0 : (state.useless[rule.name] || 0) + 1;
    if (state.useless[rule.name] >= 2 || state.repeats >= options.clicks) continue;
    state.repeats += 1;
    await click(rule, node);
  }
  const notes = Object.entries(state.counts).map(([name, count]) => `${name}: ${count}`);
  return { found, done, again: done > 0, next: done > 0, notes };
}
