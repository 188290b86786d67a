// Press "load more" as long as it brings something, within the limits of clicks and height.
async (options, tools) => {
  "use strict";
  const { barred, find, height, label, left, pause, press, query, seen } = tools;
  const words = options.words.more;
  const before = location.pathname + location.search;
  const wanted = (node) => {
    const text = label(node);
    return text.length > 0 && text.length <= 60 && words.some((word) => text === word || text.startsWith(`${word} `));
  };
  const marks = "button, [role=button], a:not([href]), a[href^='#'], a[href^='javascript:'], input[type=button]";
  const next = () => find(marks, 3000).find((node) => wanted(node) && seen(node) && !barred(node));
  const size = () => `${height()} ${query("*", document).length}`;
  let done = 0;
  let found = 0;
  let useless = 0;
  while (done < options.clicks && left() > 0 && useless < 2 && height() < (options.scrollPx || 60000)) {
    const node = next();
    if (!node || location.pathname + location.search !== before) break;
    found += 1;
    const was = size();
    press(node);
    done += 1;
    for (let turn = 0; turn < 30 && left() > 0 && size() === was; turn += 1) await pause(50);
    useless = size() === was ? useless + 1 : 0;
    await pause(50);
  }
  if (location.pathname + location.search !== before) {
    history.back();
    await pause(100);
  }
  return { found, done, again: done > 0 };
}
