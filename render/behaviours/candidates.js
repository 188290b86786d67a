// Load what other screens would load: every candidate of srcset, <picture> and image-set, also the
// `src` beside a srcset, and pictures that rules for other screens name.
async (options, tools) => {
  "use strict";
  const { address, attribute, find, loaded, loadPictures, reader, roots, srcset } = tools;
  const wanted = new Map();
  let found = 0;
  const want = (text, like, base) => {
    let absolute = text;
    if (base) {
      try {
        absolute = new URL(text, base).href;
      } catch {
        return;
      }
    }
    const url = address(absolute);
    if (!url) return;
    found += 1;
    if (wanted.size < options.fetches && !wanted.has(url) && !loaded(url)) wanted.set(url, { url, like });
  };
  for (const node of find("img, picture > source, link[imagesrcset], video[poster]", 5000)) {
    for (const each of srcset(attribute(node, "srcset") || attribute(node, "imagesrcset"))) want(each, node);
    if (node instanceof HTMLImageElement) want(attribute(node, "src"), node);
    if (node instanceof HTMLVideoElement) want(attribute(node, "poster"), node);
  }
  let looked = 0;
  const declared = (declarations, base) => {
    for (const name of ["background-image", "list-style-image", "border-image-source", "mask-image", "content"]) {
      const value = declarations.getPropertyValue(name);
      if (!value || !/url\(|image-set\(/.test(value)) continue;
      for (const match of value.slice(0, 20000).matchAll(/url\(\s*(?:"([^"]*)"|'([^']*)'|([^)\s]*))\s*\)/g)) {
        want(match[1] || match[2] || match[3], null, base);
      }
      for (const set of value.slice(0, 20000).matchAll(/image-set\(([^;]*)\)/g)) {
        for (const match of set[1].matchAll(/(?:^|,)\s*"([^"]+)"/g)) want(match[1], null, base);
      }
    }
  };
  const rules = (list, base, depth) => {
    for (const rule of list) {
      looked += 1;
      if (looked > 20000 || depth > 10) return;
      if (rule.style) declared(rule.style, base);
      if (rule.styleSheet) sheet(rule.styleSheet, depth + 1);
      else if (rule.cssRules) rules(rule.cssRules, base, depth + 1);
    }
  };
  const sheet = (each, depth) => {
    try {
      rules(each.cssRules, each.href || reader(Node, "baseURI")(document), depth);
    } catch {
      // Of another origin: the browser does not tell.
    }
  };
  for (const root of roots()) {
    const type = root === document ? Document : ShadowRoot;
    for (const name of ["styleSheets", "adoptedStyleSheets"]) {
      for (const each of reader(type, name)(root)) sheet(each, 0);
    }
  }
  for (const node of find("[style*='image-set']", 500)) {
    if (node instanceof HTMLElement) declared(reader(HTMLElement, "style")(node), null);
  }
  const done = await loadPictures([...wanted.values()]);
  return { found, done, again: done > 0 };
}
