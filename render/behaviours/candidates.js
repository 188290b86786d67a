// Load images that other screens, devices and programs would load: all candidates of srcset, <picture> and
// image-set, the `src` next to a srcset, images of media rules that do not apply, and icons. Called again
// with `sheets`, the texts of cross-origin style sheets, and `icons`.
async (options, tools) => {
  "use strict";
  const { address, attribute, find, left, loaded, loadPictures, nameOf, reader, roots, srcset } = tools;
  const MAX_RULES = 20000;
  const MAX_RULE_LENGTH = 20000; // characters
  const wanted = new Map();
  const unread = new Set();
  let found = 0;
  let cut = 0;
  const want = (text, like, base) => {
    if (!text || text.startsWith("#") || text.startsWith("data:")) return;
    let absolute = text;
    if (base) {
      try {
        absolute = new URL(text, base).href;
      } catch {
        return;
      }
    }
    const url = address(absolute);
    if (!url || wanted.has(url)) return;
    if (wanted.size >= options.fetches) {
      cut += 1;
      return;
    }
    found += 1;
    if (!loaded(url)) wanted.set(url, { url, like });
  };
  let rulesRead = 0;
  const declared = (text, base) => {
    if (!/url\(|image-set\(/i.test(text)) return;
    const part = text.slice(0, MAX_RULE_LENGTH);
    for (const match of part.matchAll(/url\(\s*(?:"([^"]*)"|'([^']*)'|([^)\s]*))\s*\)/gi)) {
      want(match[1] || match[2] || match[3], null, base);
    }
    for (const set of part.matchAll(/image-set\(([^;]*)\)/gi)) {
      for (const match of set[1].matchAll(/(?:^|,)\s*["']([^"']+)["']/g)) want(match[1], null, base);
    }
  };
  const rules = (list, base, depth) => {
    for (const rule of list) {
      rulesRead += 1;
      if (rulesRead > MAX_RULES) cut += 1;
      if (rulesRead > MAX_RULES || depth > 10 || left() <= 0) return;
      if (rule.style && !(rule instanceof CSSFontFaceRule)) declared(rule.style.cssText, base);
      if (rule.styleSheet) sheet(rule.styleSheet, depth + 1);
      else if (rule.cssRules) rules(rule.cssRules, base, depth + 1);
    }
  };
  const sheet = (each, depth) => {
    const base = each.href || reader(Node, "baseURI")(document);
    try {
      rules(each.cssRules, base, depth);
    } catch {
      // A cross-origin sheet: only DevTools can read its text.
      if (unread.size < 20) unread.add(base);
    }
  };
  const finish = async () => {
    const done = await loadPictures([...wanted.values()]);
    return { found, done, again: done > 0, cut, asked: wanted.size, sheets: [...unread] };
  };

  if (options.sheets || options.icons) {
    for (const url of options.icons || []) want(url, null);
    for (const [href, text] of options.sheets || []) {
      const parsed = new CSSStyleSheet();
      parsed.replaceSync(text);
      rules(parsed.cssRules, href, 0);
    }
    return finish();
  }
  const pictures = "img, image, input[type=image], picture > source, link[imagesrcset], video[poster]";
  for (const node of find(pictures, 5000)) {
    if (left() <= 0) break;
    const set = attribute(node, "srcset") || attribute(node, "imagesrcset");
    if (node instanceof HTMLImageElement && reader(HTMLImageElement, "complete")(node)) {
      loaded(address(reader(HTMLImageElement, "currentSrc")(node))); // the browser's list of loaded resources is limited
    }
    for (const each of srcset(set)) want(each, node);
    if (nameOf(node) === "img") want(attribute(node, "src"), node);
    if (nameOf(node) === "video") want(attribute(node, "poster"), node);
  }
  const icons = "link[rel*='apple-touch' i], link[rel~='mask-icon' i], link[rel~='fluid-icon' i], link[rel~='image_src' i]";
  // Pages of a site share their icons: another visit may have loaded them.
  const iconUrls = [];
  const addIcon = (node, key) => iconUrls.push(address(attribute(node, key)));
  if (!options.framed) {
    for (const node of find(icons, 50)) addIcon(node, "href");
    for (const node of find("meta[name='msapplication-TileImage' i]", 5)) addIcon(node, "content");
  }
  for (const root of roots()) {
    const type = root === document ? Document : ShadowRoot;
    for (const name of ["styleSheets", "adoptedStyleSheets"]) {
      for (const each of reader(type, name)(root)) sheet(each, 0);
    }
  }
  for (const node of find("[style*='url('], [style*='image-set']", 2000)) declared(attribute(node, "style"), null);
  const answer = await finish();
  const [manifest] = options.framed ? [] : find("link[rel~=manifest i]", 1);
  return { ...answer, icons: iconUrls.filter(Boolean), manifest: manifest ? address(attribute(manifest, "href")) : "" };
}
