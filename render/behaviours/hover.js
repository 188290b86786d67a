// Return points where a pointer may reveal content: menus and targets of :hover rules. The browser moves the
// pointer over them, which no script can do.
async (options, tools) => {
  "use strict";
  const { box, find, left, reader, roots, seen } = tools;
  const selectors = new Set([
    "nav li", "header li", "[aria-haspopup]", "[role=menuitem]", ".dropdown", ".has-dropdown",
    ".menu-item-has-children", "[onmouseover]", "[onmouseenter]", "[data-hover]",
  ]);
  let rulesRead = 0;
  const rules = (list) => {
    for (const rule of list) {
      rulesRead += 1;
      if (rulesRead > 10000 || selectors.size > 100) return;
      if (rule.cssRules && rule.cssRules.length) rules(rule.cssRules);
      if (!rule.selectorText || rule.selectorText.length > 1000 || !rule.selectorText.includes(":hover")) continue;
      if (!/url\(|display|visibility|opacity|content/.test(rule.cssText)) continue;
      for (const part of rule.selectorText.split(",")) {
        const upTo = part.slice(0, part.indexOf(":hover")).trim();
        if (part.includes(":hover") && upTo && !/::/.test(upTo)) selectors.add(upTo);
      }
    }
  };
  for (const sheet of reader(Document, "styleSheets")(document)) {
    try {
      rules(sheet.cssRules);
    } catch {
      // A cross-origin sheet.
    }
  }
  const points = [];
  const near = (x, y) => points.some(([a, b]) => Math.abs(a - x) < 4 && Math.abs(b - y) < 4);
  for (const selector of selectors) {
    let nodes = [];
    try {
      nodes = find(selector, 50);
    } catch {
      continue;
    }
    for (const node of nodes) {
      if (points.length >= options.hovers || left() <= 0) break;
      if (!seen(node)) continue;
      const { left: x, top: y, width, height } = box(node);
      const [px, py] = [x + Math.min(width / 2, 200), y + Math.min(height / 2, 200)];
      if (px < 0 || py < 0 || px >= innerWidth || py >= innerHeight || near(px, py)) continue;
      points.push([Math.round(px), Math.round(py)]);
    }
  }
  return { found: points.length, done: 0, again: false, points, roots: roots().length };
}
