// Set the source of elements that load when scrolled to and were not loaded by the page's own script.
// Where the page already shows something, that stays, and the other source is loaded separately.
async (options, tools) => {
  "use strict";
  const { address, attribute, find, has, loaded, loadPictures, nameOf, reader, setAttribute, srcset, within } = tools;
  const sources = ["data-src", "data-lazy-src", "data-lazy", "data-original", "data-original-src", "data-url",
    "data-image", "data-img-src", "data-hi-res-src", "data-full-src"];
  const sets = ["data-srcset", "data-lazy-srcset", "data-original-set"];
  const backgrounds = ["data-bg", "data-background", "data-background-image", "data-bgset", "data-lazy-bg"];
  const first = (node, names) => names.map((name) => attribute(node, name)).find((value) => value && value.trim());
  // Elements that wait for cookie consent stay as they are without consent.
  const guarded = (node) =>
    has([...Element.prototype.getAttributeNames.call(node)].join(" "), ["consent", "cookie", "gdpr", "usercentrics"]);
  const blank = (node) => {
    const src = attribute(node, "src");
    if (!src || /^\s*(data:|about:|#|javascript:)/i.test(src)) return true;
    if (!(node instanceof HTMLImageElement)) return false;
    if (!reader(HTMLImageElement, "complete")(node)) return false;
    const wide = reader(HTMLImageElement, "naturalWidth")(node);
    return wide <= 2 || /(blank|placeholder|spacer|loading|lazy|pixel|transparent)[^/]*$/i.test(src);
  };
  const beside = [];
  let found = 0;
  let done = 0;
  const want = (text, like) => {
    const url = address(text);
    if (url && beside.length < options.fetches && !loaded(url)) beside.push({ url, like });
  };

  for (const node of find("img, iframe, frame, source, embed, video, audio, input[type=image]", 5000)) {
    const kind = nameOf(node);
    if (attribute(node, "loading") === "lazy") setAttribute(node, "loading", "eager");
    const set = first(node, sets);
    const source = first(node, sources);
    if (kind === "video") want(attribute(node, "data-poster"), node);
    if (!set && !source) continue;
    found += 1;
    if (guarded(node)) continue;
    if (set && (kind === "img" || kind === "source") && !attribute(node, "srcset")) {
      setAttribute(node, "srcset", set);
      done += 1;
    } else if (set) {
      for (const each of srcset(set)) want(each, node);
    }
    const url = source && address(source);
    if (!url) continue;
    if (kind === "source" && within(node, "picture")) {
      want(url, node);
    } else if (blank(node)) {
      setAttribute(node, "src", source.trim());
      done += 1;
    } else if (kind === "img") {
      want(url, node);
    }
  }
  for (const node of find(backgrounds.map((name) => `[${name}]`).join(","), 2000)) {
    const said = first(node, backgrounds);
    const url = address((/url\(\s*["']?(.*?)["']?\s*\)/i.exec(said) || [null, srcset(said)[0]])[1]);
    if (!url || !(node instanceof HTMLElement)) continue;
    found += 1;
    if (getComputedStyle(node).backgroundImage === "none") {
      reader(HTMLElement, "style")(node).setProperty("background-image", `url("${CSS.escape ? url.replace(/["\\]/g, "\\$&") : url}")`);
      done += 1;
    } else {
      want(url, null);
    }
  }
  // <noscript> is text to a browser with scripts; parsed elsewhere, its pictures load nothing.
  for (const node of find("noscript", 500)) {
    const text = reader(Node, "textContent")(node);
    if (!/<(img|source|video)\b/i.test(text) || text.length > 100000) continue;
    const twin = new DOMParser().parseFromString(text, "text/html");
    for (const picture of twin.querySelectorAll("img, picture > source, video[poster]")) {
      const tiny = ["width", "height"].some((name) => /^[01](px)?$/.test(picture.getAttribute(name) || ""));
      if (tiny || /display\s*:\s*none/i.test(picture.getAttribute("style") || "")) continue;
      found += 1;
      want(picture.getAttribute(nameOf(picture) === "video" ? "poster" : "src"), null);
      for (const each of srcset(picture.getAttribute("srcset"))) want(each, null);
    }
  }
  done += await loadPictures(beside);
  return { found, done, again: done > 0 };
}
