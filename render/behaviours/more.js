// Click "load more" buttons as long as content is added, within the limits of clicks and height; one click
// per step.
async (options, tools) => {
  "use strict";
  const { barred, find, height, label, press, query, seen } = tools;
  const words = options.words.more;
  const here = () => location.pathname + location.search;
  const size = () => `${height()} ${query("*", document).length}`;
  const KEY = "weboid more";
  if (!options.step) globalThis[KEY] = { before: here(), done: 0, useless: 0, was: "" };
  const state = globalThis[KEY];
  const wanted = (node) => {
    const text = label(node);
    return text.length > 0 && text.length <= 60 && words.some((word) => text === word || text.startsWith(`${word} `));
  };
  if (here() !== state.before) {
    history.back();
    return { found: 0, done: 0, again: true };
  }
  if (options.step) state.useless = size() === state.was ? state.useless + 1 : 0;
  const buttons = "button, [role=button], a:not([href]), a[href^='#'], a[href^='javascript:'], input[type=button]";
  const open = state.done < options.clicks && state.useless < 2 && height() < (options.scrollPx || 60000);
  const node = open && find(buttons, 3000).find((each) => wanted(each) && seen(each) && !barred(each));
  if (!node) return { found: 0, done: 0, again: false };
  state.was = size();
  state.done += 1;
  press(node);
  return { found: 1, done: 1, again: true, next: true };
}
