// Open all <details> elements, which may load content when opened.
async (options, tools) => {
  "use strict";
  const { find, left, setAttribute } = tools;
  const closed = find("details:not([open])", 1000);
  let done = 0;
  for (const node of closed) {
    if (left() <= 0) break;
    setAttribute(node, "open", "");
    done += 1;
  }
  return { found: closed.length, done, again: done > 0 };
}
