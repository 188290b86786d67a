// Click tabs, carousel arrows and collapsed elements, found by ARIA attributes and by the markup of
// well-known libraries; one click per step. Finally the initial tab is selected again, and menus of the
// page header are collapsed.
async (options, tools) => {
  "use strict";
  const { attribute, barred, find, left, press, seen, within } = tools;
  const KEY = "weboid expand";
  const MAX_SLIDES = 12; // clicks on one arrow
  const here = () => location.pathname + location.search;
  const selected = (node) => attribute(node, "aria-selected") === "true" || /\bactive\b/.test(attribute(node, "class") || "");
  const begin = () => {
    const plan = [];
    const tabs = find("[role=tab], [data-toggle=tab], [data-bs-toggle=tab], [data-toggle=pill], [data-bs-toggle=pill]", 500);
    const folds = find("[aria-expanded=false], [data-toggle=collapse], [data-bs-toggle=collapse]", 1000).filter(
      (node) => !tabs.includes(node) && attribute(node, "aria-expanded") !== "true" &&
        !/^(menu|listbox|dialog|tree|grid|true)$/.test(attribute(node, "aria-haspopup") || "") &&
        !/^(combobox|textbox|searchbox)$/.test(attribute(node, "role") || "") &&
        !within(node, "details"),
    );
    const lists = new Map();
    for (const tab of tabs) {
      const list = within(tab, "[role=tablist], .nav, ul, ol") || document;
      if (!lists.has(list)) lists.set(list, []);
      lists.get(list).push(tab);
    }
    for (const list of lists.values()) {
      const shown = list.find(selected);
      const others = list.filter((tab) => tab !== shown);
      for (const tab of others) plan.push({ node: tab });
      if (shown && others.length) plan.push({ node: shown, free: true });
    }
    for (const node of find(options.carousels.arrows.join(","), 20)) {
      for (let slide = 0; slide < MAX_SLIDES; slide += 1) plan.push({ node, arrow: true });
    }
    for (const node of folds) {
      plan.push({ node });
      if (within(node, "header, nav, [role=navigation], [role=menubar], [role=banner]")) plan.push({ node, back: true });
    }
    return { plan, before: here(), done: 0, pressed: new Set() };
  };
  if (!options.step) globalThis[KEY] = begin();
  const state = globalThis[KEY];
  if (here() !== state.before) {
    history.back();
    return { found: 0, done: 0, again: true };
  }
  let found = 0;
  while (state.plan.length && left() > 0) {
    const { node, free, back, arrow } = state.plan.shift();
    const enough = state.done >= options.clicks;
    if (free || back) {
      const wanted = free ? state.pressed.size > 0 : state.pressed.has(node) && attribute(node, "aria-expanded") === "true";
      if (!wanted) continue;
    } else {
      found += 1;
      if (enough || !seen(node) || barred(node) || (arrow && attribute(node, "aria-disabled") === "true")) continue;
      state.done += 1;
      state.pressed.add(node);
    }
    press(node);
    return { found, done: free || back ? 0 : 1, again: true, next: true };
  }
  return { found, done: 0, again: false };
}
