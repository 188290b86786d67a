// Set the sources of lazy-loading elements that the page's script did not load. An element that already
// shows an image keeps it; the other source is loaded separately.
async (options, tools) => {
  "use strict";
  const { address, attribute, find, has, loaded, loadPictures, nameOf, reader, setAttribute, srcset, within } = tools;
  const sources = ["data-src", "data-lazy-src", "data-lazy", "data-original", "data-original-src", "data-url",
    "data-image", "data-img-src", "data-hi-res-src", "data-full-src"];
  const sets = ["data-srcset", "data-lazy-srcset", "data-original-set"];
  const backgrounds = ["data-bg", "data-background", "data-background-image", "data-bgset", "data-lazy-bg"];
  const first = (node, names) => names.map((name) => attribute(node, name)).find((value) => value && value.trim());
  // Elements that wait for consent are not loaded.
  const needsConsent = (node) =>
    has([...Element.prototype.getAttributeNames.call(node)].join(" "), ["consent", "cookie", "gdpr", "usercentrics"]);
  const blank = (node) => {
    const src = attribute(node, "src");
    if (!src || /^\s*(data:|about:|#|javascript:)/i.test(src)) return true;
    if (!(node instanceof HTMLImageElement)) return false;
    if (!reader(HTMLImageElement, "complete")(node)) return false;
    const width = reader(HTMLImageElement, "naturalWidth")(node);
    return width <= 2 || /(blank|placeholder|spacer|loading|lazy|pixel|transparent)[^/]*$/i.test(src);
  };
  const separate = [];
  let found = 0;
  let done = 0;
  const want = (text, like) => {
    const url = address(text);
    if (url && separate.length < options.fetches && !loaded(url)) separate.push({ url, like });
  };

  for (const node of find("img, iframe, frame, source, embed, video, audio, input[type=image]", 5000)) {
    const kind = nameOf(node);
    if (attribute(node, "loading") === "lazy") setAttribute(node, "loading", "eager");
    const set = first(node, sets);
    const source = first(node, sources);
    if (kind === "video") want(attribute(node, "data-poster"), node);
    if (!set && !source) continue;
    found += 1;
    if (needsConsent(node)) continue;
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
    const background = first(node, backgrounds);
    const url = address((/url\(\s*["']?(.*?)["']?\s*\)/i.exec(background) || [null, srcset(background)[0]])[1]);
    if (!url || !(node instanceof HTMLElement)) continue;
    found += 1;
    if (getComputedStyle(node).backgroundImage === "none") {
      reader(HTMLElement, "style")(node).setProperty("background-image", `url("${CSS.escape ? url.replace(/["\\]/g, "\\$&") : url}")`);
      done += 1;
    } else {
      want(url, null);
    }
  }
  // With scripts enabled <noscript> contains text; parsing it in another document loads nothing.
  for (const node of find("noscript", 500)) {
    const text = reader(Node, "textContent")(node);
    if (!/<(img|source|video)\b/i.test(text) || text.length > 100000) continue;
    const parsed = new DOMParser().parseFromString(text, "text/html");
    for (const picture of parsed.querySelectorAll("img, picture > source, video[poster]")) {
      const tiny = ["width", "height"].some((name) => /^[01](px)?$/.test(picture.getAttribute(name) || ""));
      if (tiny || /display\s*:\s*none/i.test(picture.getAttribute("style") || "")) continue;
      found += 1;
      want(picture.getAttribute(nameOf(picture) === "video" ? "poster" : "src"), null);
      for (const each of srcset(picture.getAttribute("srcset"))) want(each, null);
    }
  }
  done += await loadPictures(separate);
  return { found, done, again: done > 0 };
}
