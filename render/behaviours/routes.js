// Visit the routes of a single-page application that live in the fragment (#/ and #!), as its own links
// name them, so that their data is loaded; then come back.
async (options, tools) => {
  "use strict";
  const { address, attribute, find, height, left, pause, query, reader } = tools;
  const home = location.href;
  const here = address(home);
  const seen = new Set([new URL(home).hash]);
  const open = [];
  let found = 0;
  const collect = () => {
    for (const node of find("a[href*='#']", 2000)) {
      if (!(node instanceof HTMLAnchorElement)) continue;
      const target = reader(HTMLAnchorElement, "href")(node);
      if (address(target) !== here) continue;
      const { hash } = new URL(target);
      if (!/^#(\/|!)/.test(hash) || hash.length > 1000 || seen.has(hash)) continue;
      if (options.words.barred.some((word) => hash.toLowerCase().split(/[^\p{L}]+/u).includes(word))) continue;
      seen.add(hash);
      found += 1;
      if (open.length < options.routes) open.push(hash);
    }
  };
  const size = () => `${height()} ${query("*", document).length} ${performance.getEntriesByType("resource").length}`;
  collect();
  let done = 0;
  while (open.length && done < options.routes && left() > 300) {
    location.hash = open.shift();
    done += 1;
    let quiet = 0;
    for (let turn = 0, was = size(); turn < 24 && quiet < 5 && left() > 200; turn += 1) {
      await pause(50);
      const now = size();
      quiet = now === was ? quiet + 1 : 0;
      was = now;
    }
    collect();
  }
  if (done) {
    location.hash = new URL(home).hash;
    await pause(150);
    history.replaceState(history.state, "", home);
  }
  return { found, done, again: done > 0 };
}
