// Press tabs and what says that it can be unfolded, by ARIA and by the marks of well-known libraries.
// The tab that was shown is shown again; what unfolds in the page's head is folded again.
async (options, tools) => {
  "use strict";
  const { attribute, barred, drawn, find, left, pause, press, seen, within } = tools;
  const selected = (node) => attribute(node, "aria-selected") === "true" || /\bactive\b/.test(attribute(node, "class") || "");
  const tabs = find("[role=tab], [data-toggle=tab], [data-bs-toggle=tab], [data-toggle=pill], [data-bs-toggle=pill]", 500);
  const folds = find("[aria-expanded=false], [data-toggle=collapse], [data-bs-toggle=collapse]", 1000).filter(
    (node) => !tabs.includes(node) && attribute(node, "aria-expanded") !== "true" &&
      !/^(menu|listbox|dialog|tree|grid|true)$/.test(attribute(node, "aria-haspopup") || "") &&
      !/^(combobox|textbox|searchbox)$/.test(attribute(node, "role") || "") &&
      !within(node, "details"),
  );
  let done = 0;
  let found = 0;
  const before = location.pathname + location.search;
  const click = async (node) => {
    if (done >= options.clicks || left() <= 0 || location.pathname + location.search !== before) return false;
    if (!seen(node) || barred(node)) return false;
    done += 1;
    press(node);
    await drawn();
    return true;
  };
  const lists = new Map();
  for (const tab of tabs) {
    const list = within(tab, "[role=tablist], .nav, ul, ol") || document;
    if (!lists.has(list)) lists.set(list, []);
    lists.get(list).push(tab);
  }
  for (const list of lists.values()) {
    const shown = list.find(selected);
    let moved = false;
    for (const tab of list) {
      found += 1;
      if (tab !== shown && (await click(tab))) moved = true;
    }
    if (moved && shown && left() > 0) press(shown);
  }
  for (const fold of folds) {
    found += 1;
    if (!(await click(fold))) continue;
    if (within(fold, "header, nav, [role=navigation], [role=menubar], [role=banner]")) {
      await pause(50);
      if (attribute(fold, "aria-expanded") === "true") press(fold);
    }
  }
  if (location.pathname + location.search !== before) {
    history.back();
    await pause(100);
  }
  return { found, done, again: done > 0 };
}
