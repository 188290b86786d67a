// Serialises the rendered page as HTML that looks the same without scripts.
//
// Shadow trees are flattened in place, with filled slots, for readers without scripts; an attribute
// selector limits their style rules to their host. Scripts, templates, noscript and comments are
// omitted, as they are not rendered. URLs are absolute, since <base> is omitted, too.
//
// Content that this script cannot read has a placeholder in `parts`: [number, level] for the document of
// the frame of that number (render/page_frames.py), to be escaped `level` times, and {canvas} for the
// image of a tainted canvas.
(limit, canvasLimit) => {
  "use strict";
  // Getters of the prototypes: a form's input can shadow any property by its name.
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => get.call(node);
  };
  const attempt = (action, otherwise) => {
    try {
      return action();
    } catch {
      return otherwise;
    }
  };
  const HTML = "http://www.w3.org/1999/xhtml";
  const VOID = new Set("area base br col embed hr img input link meta param source track wbr".split(" "));
  const LEFT_OUT = new Set("script template noscript base".split(" "));
  const RAW = new Set("style xmp iframe noembed noframes plaintext".split(" "));
  const URLS = new Set(
    "href src poster background action formaction cite longdesc data icon manifest xlink:href".split(" "),
  );
  const DEPTH = 1000;
  const MAX_SHEET_LENGTH = 1000000; // characters; copies omit longer ones
  const typeOf = reader(Node, "nodeType");
  const firstOf = reader(Node, "firstChild");
  const nextOf = reader(Node, "nextSibling");
  const textOf = reader(Node, "textContent");
  const baseOf = reader(Node, "baseURI");
  const dataOf = reader(CharacterData, "data");
  const nameOf = reader(Element, "localName");
  const namespaceOf = reader(Element, "namespaceURI");
  const openOf = reader(Element, "shadowRoot");
  const closed = Object.hasOwn(globalThis, "weboidClosed") ? globalThis.weboidClosed : new WeakMap(); // hosts.js
  const shadowOf = (node) => openOf(node) ?? closed.get(node) ?? null;
  const FRAMES = {
    iframe: reader(HTMLIFrameElement, "contentDocument"),
    frame: reader(HTMLFrameElement, "contentDocument"),
    object: reader(HTMLObjectElement, "contentDocument"),
    embed: () => null,
  };
  const numberOf = (node) => {
    if (!Object.hasOwn(globalThis, "weboidFrames")) globalThis.weboidFrames = [];
    const at = globalThis.weboidFrames.indexOf(node);
    return at < 0 ? globalThis.weboidFrames.push(node) - 1 : at;
  };
  const rootOf = reader(Document, "documentElement");
  const doctypeOf = reader(Document, "doctype");
  const adoptedOf = (root, type) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, "adoptedStyleSheets").get;
    return attempt(() => [...get.call(root)], []);
  };

  // Text is collected in one string; a placeholder ends it.
  let parts = [];
  let written = "";
  const placeholder = (part) => {
    parts.push(written, part);
    written = "";
  };
  let length = 0;
  let base = "";
  let truncated = false;
  let canvasLeft = canvasLimit;
  let hosts = 0;
  const canvases = [];
  const put = (text) => {
    length += text.length;
    written += text;
  };
  const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\u00a0": "&nbsp;" };
  const escapeText = (text) => (/[&<>\u00a0]/.test(text) ? text.replace(/[&<>\u00a0]/g, (c) => ESCAPES[c]) : text);
  const escapeValue = (text) => (/[&<>"\u00a0]/.test(text) ? text.replace(/[&<>"\u00a0]/g, (c) => ESCAPES[c]) : text);

  const absolute = (value, base) => {
    const text = value.trim();
    if (text === "" || text.startsWith("#") || text.startsWith("data:")) return value;
    return attempt(() => new URL(text, base).href, value);
  };
  const absoluteSet = (value, base) => {
    // HTML, "parse a srcset attribute": a URL up to white space, then descriptors up to a comma.
    if (value.length > 10000) return value;
    const candidates = [];
    const pattern = /[\s,]*(\S*[^\s,])(?:,+|((?:[^,(]|\([^)]*\))*),?)?/gy;
    for (let match; (match = pattern.exec(value)) && candidates.length < 1000; ) {
      candidates.push((absolute(match[1], base) + " " + (match[2] || "").trim()).trim());
    }
    return candidates.join(", ");
  };
  // Pixel density of the selected candidate, from its descriptor (HTML 4.8.4.3.5).
  const densityText = (node, name, loaded) =>
    attempt(() => {
      const parent = reader(Node, "parentElement")(node);
      const sources = name === "img" && parent && nameOf(parent) === "picture"
        ? Element.prototype.querySelectorAll.call(parent, "source") : [];
      for (const each of [node, ...sources]) {
        const set = Element.prototype.getAttribute.call(each, "srcset");
        for (const candidate of set ? absoluteSet(set, base).split(/,\s/) : []) {
          const [url, descriptor] = candidate.trim().split(/\s+/);
          if (url !== loaded || !/^[\d.]+[xw]$/.test(descriptor || "")) continue;
          const width = reader(HTMLImageElement, "naturalWidth")(node);
          const density = parseFloat(descriptor) / (descriptor.endsWith("w") ? width : 1);
          return density > 0 && density < 100 && density !== 1 ? attribute("data-weboid-density", density.toFixed(4)) : "";
        }
      }
      return "";
    }, "");
  // blob: URLs end with the page, so images and fonts are embedded, within limits.
  const MAX_BLOB_BYTES = 1000000;
  let blobBytesLeft = 6000000;
  const blobs = new Map();
  const KINDS = [["image/png", /^\x89PNG/], ["image/jpeg", /^\xff\xd8\xff/], ["image/gif", /^GIF8/], ["image/webp", /^RIFF[^]{4}WEBP/],
    ["image/avif", /^[^]{4}ftypavi[fs]/], ["font/woff2", /^wOF2/], ["font/woff", /^wOFF/], ["font/ttf", /^(\0\x01\0\0|true)/],
    ["font/otf", /^OTTO/], ["image/svg+xml", /^\s*(<\?xml[^>]*>\s*)?<svg[\s>]/]];
  const dataUrlOf = (url) => {
    if (!blobs.has(url)) {
      blobs.set(url, attempt(() => {
        const request = new XMLHttpRequest();
        request.open("GET", url, false);
        request.setRequestHeader("Range", `bytes=0-${MAX_BLOB_BYTES}`);
        request.overrideMimeType("text/plain; charset=x-user-defined");
        request.send();
        const text = request.responseText;
        if (text.length > MAX_BLOB_BYTES) return "";
        const bytes = text.replace(/[^\0-\xff]/g, (c) => String.fromCharCode(c.charCodeAt(0) & 255));
        const kind = KINDS.find(([, beginning]) => beginning.test(bytes.slice(0, 200)));
        return kind ? `data:${kind[0]};base64,${btoa(bytes)}` : "";
      }, ""));
    }
    const data = blobs.get(url);
    if (!data || data.length > blobBytesLeft) return url;
    blobBytesLeft -= data.length;
    return data;
  };
  const absoluteCss = (css, base) => {
    if (!/url\(|@import/i.test(css)) return css;
    return css
      .replace(/url\(\s*(?:"([^"\n]*)"|'([^'\n]*)'|([^"'()\s]+))\s*\)/gi, (whole, a, b, c) => {
        const url = a ?? b ?? c;
        if (/^blob:/i.test(url)) return `url("${dataUrlOf(url)}")`;
        if (/^(data:|#|[a-z][a-z0-9+.-]*:\/\/)/i.test(url) || url.includes("\\")) return whole;
        return `url("${absolute(url, base).replace(/["\\\n]/g, encodeURIComponent)}")`;
      })
      .replace(/(@import\s+)(["'])([^"'\n]*)\2/gi, (whole, at, quote, url) =>
        url.includes("\\") ? whole : `${at}"${absolute(url, base).replace(/["\\\n]/g, encodeURIComponent)}"`,
      );
  };
  const cssText = (sheet) => [...sheet.cssRules].map((rule) => rule.cssText).join("\n");

  // Rules of a shadow tree, limited to its host's descendants.
  const scopedSelector = (selector, scope) => {
    const inner = "((?:[^()]|\\([^()]*\\))*)";
    let hosted = false;
    const text = selector
      .replace(new RegExp(`:host-context\\(${inner}\\)`, "g"), (_, s) => ((hosted = true), `:is(${s}) ${scope}`))
      .replace(new RegExp(`:host\\(${inner}\\)`, "g"), (_, s) => ((hosted = true), `${scope}:is(${s})`))
      .replace(/:host(?![\w-])/g, () => ((hosted = true), scope))
      .replace(new RegExp(`::slotted\\(${inner}\\)`, "g"), (_, s) => ` :is(${s})`);
    return hosted ? text : `${scope} ${text.trim()}`;
  };
  const splitSelectors = (text) => {
    const pieces = [""];
    let depth = 0;
    for (const c of text) {
      if (c === "(" || c === "[") depth += 1;
      if (c === ")" || c === "]") depth -= 1;
      if (c === "," && depth === 0) pieces.push("");
      else pieces[pieces.length - 1] += c;
    }
    return pieces;
  };
  const selectorOf = (scope) => `[data-weboid-host="${scope.id}"]`;
  const scopedRules = (rules, scope) =>
    [...rules]
      .map((rule) => {
        const text = rule.cssText;
        if (rule instanceof CSSStyleRule || rule.selectorText !== undefined) {
          const selectors = splitSelectors(rule.selectorText).map((s) => scopedSelector(s, scope));
          return selectors.join(", ") + text.slice(rule.selectorText.length);
        }
        if (/^@(media|supports|container|layer)\b/.test(text) && rule.cssRules) {
          return `${text.slice(0, text.indexOf("{"))}{\n${scopedRules(rule.cssRules, scope)}\n}`;
        }
        return text;
      })
      .join("\n");

  // From guard.js: elements whose style sheet was changed, and scenes that the browser refused.
  const [changed, undrawn] = [new Set(), new Set()];
  const query = (page, question, answer, elements) =>
    attempt(() => {
      const add = (event) => elements.add(event.target);
      EventTarget.prototype.addEventListener.call(page, answer, add, true);
      EventTarget.prototype.dispatchEvent.call(page, new Event(question));
      EventTarget.prototype.removeEventListener.call(page, answer, add, true);
    });
  const styleText = (node) => {
    // Rules inserted by scripts are only in the sheet; the text also has what the sheet's parser dropped.
    const written = textOf(node);
    const sheet = attempt(() => node.sheet, null);
    if (!sheet) return written;
    if (sheet.disabled) return "";
    return attempt(() => {
      if (written.length > MAX_SHEET_LENGTH) return written;
      if (changed.has(node)) return cssText(sheet);
      const probe = new CSSStyleSheet();
      probe.replaceSync(written);
      const imports = [...sheet.cssRules].filter((rule) => rule.cssText.startsWith("@import")).length;
      return probe.cssRules.length + imports === sheet.cssRules.length ? written : cssText(sheet);
    }, written);
  };
  const putStyle = (css, attributes, base) => {
    put(`<style${attributes}>${absoluteCss(css, base).replace(/<(?=\/)/g, "\\3c ")}</style>`);
  };

  // The values of these attributes are absolute here or rewritten in copies: if a style rule of the document
  // tests one of them, the original value is stored, too.
  const TESTABLE = "data href poster rel src srcset style target type".split(" ");
  const TEST = /\[\s*(?:(href|style)\s*[~|^$*]?=|(data|poster|rel|src|srcset|target|type)\s*[\]~|^$*=])|attr\(\s*(data|href|poster|rel|src|srcset|target|style|type)\b/gi;
  const MAX_RULES = 50000;
  const MAX_VALUE_LENGTH = 2000; // characters of an original value
  let tested = new Set();
  let rulesRead = 0;
  const testedBy = (sheets) => {
    const names = new Set();
    const read = (rules) => {
      for (const rule of rules) {
        if ((rulesRead += 1) > MAX_RULES) throw new RangeError();
        const content = rule.style && rule.style.content;
        const text = (rule.selectorText || rule.start || "") + (content && content.includes("attr(") ? content : "");
        if (text.includes("[") || text.includes("attr(")) {
          for (const match of text.matchAll(TEST)) names.add((match[1] || match[2] || match[3]).toLowerCase());
        }
        if (rule.styleSheet) read(rule.styleSheet.cssRules);
        else if (rule.cssRules && rule.cssRules.length) read(rule.cssRules);
      }
    };
    for (const sheet of sheets) {
      // A cross-origin sheet cannot be read: it may test any of them.
      const isRead = attempt(() => (read(sheet.cssRules), true), false);
      if (!isRead) return new Set(TESTABLE);
    }
    return names;
  };
  const names = new Map(); // by element name, whether it is serialised
  const ATTRIBUTE_NAME = /^[^\s"'<>/=\u0000]+$/;
  const attribute = (name, value) => ` ${name}="${escapeValue(value)}"`;
  const NO_STATE = new Map();
  const STATEFUL = new Set(["img", "video", "input", "option", "dialog"]);
  let framedRoot = null;
  let framedUrl = "";
  const attributesText = (node, name, host) => {
    const plain = !Element.prototype.hasAttributes.call(node);
    const state = plain && !STATEFUL.has(name) ? NO_STATE : stateOf(node, name);
    const html = tested.size > 0 && namespaceOf(node) === HTML;
    let text = "";
    for (const key of plain ? [] : Element.prototype.getAttributeNames.call(node)) {
      const lower = key.toLowerCase();
      const value = Element.prototype.getAttribute.call(node, key);
      if (value === null) continue;
      if (!ATTRIBUTE_NAME.test(key) || lower.startsWith("data-weboid-") || state.has(lower)) continue;
      if (name === "iframe" && lower === "srcdoc" && attempt(() => FRAMES.iframe(node), null)) continue;
      let shown = value;
      if (URLS.has(lower)) shown = absolute(value, base);
      else if (lower === "srcset" || lower === "imagesrcset") shown = absoluteSet(value, base);
      else if (lower === "style") shown = absoluteCss(value, base);
      text += attribute(key, shown);
      if (tested.has(lower) && html) text += attribute(`data-weboid-written-${lower}`, value.slice(0, MAX_VALUE_LENGTH));
    }
    for (const [key, value] of state) if (value !== null) text += attribute(key, value);
    if (name === "img" || name === "video" || name === "audio") {
      const loaded = attempt(() => reader(name === "img" ? HTMLImageElement : HTMLMediaElement, "currentSrc")(node), "");
      if (loaded && /^https?:/.test(loaded)) text += attribute("data-weboid-src", loaded) + densityText(node, name, loaded);
      else if (name === "img" && loaded.startsWith("blob:")) text += attribute("data-weboid-blob", loaded.slice(0, 200));
    }
    if (host) text += attribute("data-weboid-host", String(host.id));
    if (node === framedRoot) text += attribute("data-weboid-url", framedUrl);
    if (name === "html") text += attribute("data-weboid-written", [...tested].join(" "));
    if (beginnings.has(node)) text += attribute("data-weboid-beginning", "");
    return text;
  };
  const draw = (node, width, height, type) =>
    attempt(() => {
      if (!width || !height || width * height > 16000000) return null;
      const canvas = Document.prototype.createElement.call(document, "canvas");
      canvas.width = width;
      canvas.height = height;
      CanvasRenderingContext2D.prototype.drawImage.call(HTMLCanvasElement.prototype.getContext.call(canvas, "2d"), node, 0, 0, width, height);
      return canvasPicture(canvas, type);
    }, null);
  const mediaState = (node, name, state) => {
    if (name === "img") {
      // blob: URLs cannot be requested later.
      const source = reader(HTMLImageElement, "currentSrc")(node);
      if (!source.startsWith("blob:")) return;
      const data = draw(node, reader(HTMLImageElement, "naturalWidth")(node), reader(HTMLImageElement, "naturalHeight")(node));
      if (data) for (const key of ["src", "srcset"]) state.set(key, key === "src" ? data : null);
    } else if (reader(HTMLMediaElement, "readyState")(node) >= 2) {
      // The current frame, unless the poster is shown.
      const poster = Element.prototype.hasAttribute.call(node, "poster");
      if (poster && reader(HTMLMediaElement, "currentTime")(node) === 0) return;
      const data = draw(node, reader(HTMLVideoElement, "videoWidth")(node), reader(HTMLVideoElement, "videoHeight")(node), "image/jpeg");
      if (data) state.set("poster", data);
    }
  };
  const stateOf = (node, name) => {
    // Visible state of form fields, except passwords.
    const state = new Map();
    if (name === "img" || name === "video") attempt(() => mediaState(node, name, state));
    if (Element.prototype.hasAttribute.call(node, "popover")) {
      // Popovers cannot be opened without scripts, so their state is stored in other attributes.
      const open = attempt(() => Element.prototype.matches.call(node, ":popover-open"), false);
      state.set("popover", null);
      state.set("data-weboid-popover", open ? "open" : "closed");
      if (!open) state.set("hidden", "");
    }
    if (name === "dialog" && attempt(() => Element.prototype.matches.call(node, ":modal"), false)) {
      state.set("data-weboid-modal", "");
      // Imitate ::backdrop, which only modal dialogs have.
      const dim = attempt(() => getComputedStyle(node, "::backdrop").backgroundColor, "");
      const own = Element.prototype.getAttribute.call(node, "style") || "";
      if (/^rgba?\([\d., ]+\)$/.test(dim)) state.set("style", `${absoluteCss(own, base)};outline:200vmax solid ${dim}`);
    }
    attempt(() => {
      if (name === "input") {
        const kind = reader(HTMLInputElement, "type")(node);
        if (kind === "checkbox" || kind === "radio") {
          state.set("checked", reader(HTMLInputElement, "checked")(node) ? "" : null);
        } else if (kind === "password") {
          state.set("value", null);
        } else if (kind !== "file" && kind !== "hidden" && kind !== "image") {
          state.set("value", reader(HTMLInputElement, "value")(node));
        }
      } else if (name === "option") {
        state.set("selected", reader(HTMLOptionElement, "selected")(node) ? "" : null);
      }
    });
    return state;
  };
  const canvasPicture = (node, type = "image/png") =>
    attempt(() => {
      const data = HTMLCanvasElement.prototype.toDataURL.call(node, type, 0.8);
      if (data.length > canvasLeft || data.length < 10) return null;
      canvasLeft -= data.length;
      return data;
    }, null);

  // Scroll position of a box: without scripts a box can be scrolled to an element (CSS Scroll Snap 2,
  // scroll-initial-target), so the element nearest to the scroll position is marked.
  const [topOf, leftOf] = [reader(Element, "scrollTop"), reader(Element, "scrollLeft")];
  const boxOf = (node) => Element.prototype.getBoundingClientRect.call(node);
  const computed = (node, key) => CSSStyleDeclaration.prototype.getPropertyValue.call(getComputedStyle(node), key);
  const beginnings = new Set();
  const markBeginning = (node, name) => {
    const [top, left] = [topOf(node), leftOf(node)];
    if ((top === 0 && left === 0) || name === "html" || name === "body" || name === "textarea") return;
    const [height, width] = [reader(Element, "clientHeight")(node), reader(Element, "clientWidth")(node)];
    const atEnd = Math.abs(top) + height >= reader(Element, "scrollHeight")(node) - 1;
    const edge = boxOf(node);
    const upper = edge.top + reader(Element, "clientTop")(node);
    const start = edge.left + reader(Element, "clientLeft")(node);
    const fromRight = computed(node, "direction") === "rtl";
    const isOfAnother = (inner) => {
      for (let at = reader(Node, "parentNode")(inner); at && at !== node; at = reader(Node, "parentNode")(at)) {
        if (typeOf(at) !== 1 || !/^(visible|clip)/.test(computed(at, "overflow-y"))) return true;
      }
      return false;
    };
    let [best, nearest] = [null, 1];
    for (const inner of [...Element.prototype.querySelectorAll.call(node, "*")].slice(0, 3000)) {
      const box = boxOf(inner);
      if (box.width === 0 || box.height === 0) continue;
      const below = top === 0 ? 0 : (box.top - upper) / (height / 2);
      const beside = left === 0 ? 0 : (fromRight ? start + width - box.right : box.left - start) / (width / 2);
      // A box at its end keeps its position for any visible element.
      const away = Math.abs(beside) + (atEnd && top !== 0 ? (below < 0 ? 1 : 1e-9 / (1 + below)) : Math.abs(below));
      if (away >= nearest || computed(inner, "display") === "inline") continue;
      if (/^(fixed|sticky)/.test(computed(inner, "position")) || isOfAnother(inner)) continue;
      [best, nearest] = [inner, away];
    }
    if (best) beginnings.add(best);
  };
  const children = (parent, depth, scope, raw) => {
    for (let child = firstOf(parent); child; child = nextOf(child)) {
      if (length > limit) {
        truncated = true;
        return;
      }
      write(child, depth, scope, raw);
    }
  };
  const shadowChildren = (node, shadow, depth, scope) => {
    const outside = tested;
    const adopted = adoptedOf(shadow, ShadowRoot);
    tested = new Set([...tested, ...testedBy([...attempt(() => reader(ShadowRoot, "styleSheets")(shadow), []), ...adopted])]);
    for (const sheet of adopted) {
      const css = attempt(() => scopedRules(sheet.cssRules, selectorOf(scope)), "");
      if (css && !sheet.disabled) putStyle(css, "", base);
    }
    children(shadow, depth, scope, false);
    tested = outside;
  };
  const inShadow = (node) => typeOf(Node.prototype.getRootNode.call(node)) === 11;
  const slotted = (node, depth, scope) => {
    const assigned = attempt(() => HTMLSlotElement.prototype.assignedNodes.call(node), []);
    if (assigned.length === 0) children(node, depth, scope, false);
    // Slotted nodes are styled by the tree of the host.
    for (const child of assigned) write(child, depth, scope && scope.outer, false);
  };
  const writeStyle = (node, scope) => {
    const kept = attributesText(node, "style", null);
    if (!scope) return putStyle(styleText(node), kept, base);
    const sheet = attempt(() => node.sheet, null);
    const css = attempt(() => scopedRules(sheet.cssRules, selectorOf(scope)), "");
    return css ? putStyle(css, "", base) : undefined;
  };
  const writeLink = (node, scope) => {
    const sheet = attempt(() => reader(HTMLLinkElement, "sheet")(node), null);
    const href = attempt(() => sheet.href, null) || base;
    const isBlob = /^blob:/i.test(Element.prototype.getAttribute.call(node, "href") || "");
    if (scope || isBlob) {
      const css = attempt(() => (scope ? scopedRules(sheet.cssRules, selectorOf(scope)) : cssText(sheet)), "");
      return css ? putStyle(css, "", href) : undefined;
    }
    const disabled = sheet !== null && sheet.disabled;
    const css = changed.has(node) && !disabled ? attempt(() => cssText(sheet), null) : null;
    if (css !== null && css.length <= MAX_SHEET_LENGTH) {
      const media = Element.prototype.getAttribute.call(node, "media");
      const kept = (media ? attribute("media", media) : "") + attribute("data-weboid-sheet", href);
      return putStyle(css, kept, href);
    }
    const off = disabled && !Element.prototype.hasAttribute.call(node, "disabled");
    put(`<link${attributesText(node, "link", null)}${off ? attribute("disabled", "") : ""}>`);
  };
  const writeFrame = (node, name, depth) => {
    const inner = attempt(() => FRAMES[name](node), null);
    put(`<${name}${attributesText(node, name, null)}`);
    if (depth < DEPTH && (inner || name === "iframe" || name === "frame" || isFramed(node))) {
      // Its document is stored in an attribute, from which playback renders it.
      put(' data-weboid-document="');
      if (inner) writeInner(inner, depth);
      else placeholder([numberOf(node), 1]);
      put('"');
    }
    put(">");
    if (name === "object" && !inner) children(node, depth + 1, null, false);
    if (name === "iframe" || name === "object") put(`</${name}>`);
  };
  const writeInner = (inner, depth) => {
    const [outer, before, around, long] = [parts, written, base, length];
    parts = [];
    written = "";
    writeDocument(inner, depth + DEPTH / 4);
    const own = [...parts, written];
    [parts, written, base, length] = [outer, before, around, long];
    for (const part of own) {
      if (typeof part === "string") put(escapeValue(part));
      else placeholder(Array.isArray(part) ? [part[0], part[1] + 1] : part);
    }
  };
  const isFramed = (node) => {
    const type = Element.prototype.getAttribute.call(node, "type") || "";
    return /html|svg|xml/i.test(type) || (type === "" && nameOf(node) === "object");
  };
  const writeCanvas = (node) => {
    const data = canvasPicture(node);
    const clip = data ? null : clipOf(node);
    if (!data && !clip) return false;
    put(`<img${attributesText(node, "canvas", null)}${attribute("data-weboid-canvas", data ? "" : "seen")} src="`);
    if (data) put(data);
    else {
      placeholder({ canvas: canvases.length });
      canvases.push(clip);
    }
    put('">');
    return true;
  };
  const clipOf = (node) =>
    // A canvas with cross-origin content cannot be read; its screenshot is taken instead.
    attempt(() => {
      if (canvases.length >= 20 || reader(Node, "ownerDocument")(node) !== document) return null;
      if (!Element.prototype.checkVisibility.call(node, { visibilityProperty: true })) return null;
      const box = Element.prototype.getBoundingClientRect.call(node);
      if (box.width < 1 || box.height < 1 || box.width * box.height > 4000000) return null;
      return [box.x + scrollX, box.y + scrollY, box.width, box.height];
    }, null);
  const drawn = include("shapes")(reader, attempt, 20, 1000); // limits per kind and in total
  const LOOK = "width height color fill stroke stroke-width display".split(" ");
  const PLACE = "vertical-align position float opacity margin-top margin-right margin-bottom margin-left transform".split(" ");
  const INSETS = "top right bottom left".split(" ");
  const PLAIN = new Set(["auto", "none", "0px", "baseline", "static", "1"]);
  let looks = 0;
  const lookOf = (node) =>
    // Computed style of an SVG: copies show it as an image, to which the page's style rules do not apply.
    attempt(() => {
      if ((looks += 1) > 1000) return "";
      const style = getComputedStyle(node);
      const value = (key) => CSSStyleDeclaration.prototype.getPropertyValue.call(style, key);
      const places = value("position") === "static" ? PLACE : [...PLACE, ...INSETS];
      const placed = places.filter((key) => INSETS.includes(key) || !PLAIN.has(value(key)));
      const keys = [...LOOK, ...placed].filter((key) => !/[;:"]/.test(value(key)));
      const declarations = new Map([...keys.map((key) => [key, value(key)]), ...drawn.begin(node)]);
      return attribute("data-weboid-look", [...declarations].map((pair) => pair.join(":")).join(";"));
    }, "");
  const shapeLook = (node, name) => {
    const look = attempt(() => drawn.look(node, name), "");
    return look && attribute("data-weboid-look", look);
  };
  const ownerOf = reader(SVGElement, "ownerSVGElement");
  const isDrawing = (node, name) => name === "svg" && attempt(() => ownerOf(node) === null, false);
  const copies = Object.hasOwn(globalThis, "weboidCopies") ? globalThis.weboidCopies : new WeakMap(); // hosts.js
  const shapes = new Map(); // external shapes by address
  const writeUse = (node, depth, scope) => {
    const get = (element, name) => Element.prototype.getAttribute.call(element, name) ?? "";
    const address = get(node, "href") || get(node, "xlink:href");
    if (copies.has(node)) shapes.set(address, firstOf(copies.get(node)));
    const shape = shapes.get(address);
    if (!shape || typeOf(shape) !== 1) return false;
    const place = ["x", "y"].map((key) => parseFloat(get(node, key)) || 0);
    put(`<g${attributesText(node, "use", null)}${shapeLook(node, "use")}><g transform="translate(${place.join(" ")})">`);
    const name = nameOf(shape);
    if (name === "symbol" || name === "svg") {
      // Rendered as a nested drawing of the requested size (SVG 2, 5.5.1).
      put("<svg");
      for (const key of ["viewBox", "preserveAspectRatio"]) if (get(shape, key)) put(attribute(key, get(shape, key)));
      for (const key of ["width", "height"]) put(attribute(key, get(node, key) || get(shape, key) || "100%"));
      put(">");
      children(shape, depth + 1, scope, false);
      put("</svg>");
    } else write(shape, depth + 1, scope, false);
    put("</g></g>");
    return true;
  };
  // Embed an external image of an SVG: an SVG that is shown as an image cannot load others.
  const writePicture = (node) => {
    const get = (key) => Element.prototype.getAttribute.call(node, key);
    const address = get("href") ?? get("xlink:href") ?? "";
    if (/^\s*(data:|#|$)/i.test(address)) return false;
    const image = Document.prototype.createElement.call(document, "img");
    image.src = absolute(address, base); // loaded images are available at once
    const data = image.complete && draw(image, image.naturalWidth, image.naturalHeight);
    if (!data) return false;
    const others = attributesText(node, "image", null).replace(/ (xlink:)?href="[^"]*"/g, "");
    put(`<image${others}${shapeLook(node, "image")}${attribute("href", data)}></image>`);
    return true;
  };
  // HTML within an SVG, converted for display as an image: backgrounds to shapes, lines to text.
  const MAX_LINES = 2000;
  let lines = 0;
  const writeForeign = (node) => {
    const toLocal = SVGGraphicsElement.prototype.getScreenCTM.call(node).inverse();
    const place = ({ left, top, width, height }) => {
      const point = new DOMPoint(left, top).matrixTransform(toLocal);
      const size = (length, scale) => (length * scale).toFixed(2);
      return { x: point.x.toFixed(2), y: point.y, width: size(width, toLocal.a), height: size(height, toLocal.d) };
    };
    const walker = Document.prototype.createTreeWalker.call(document, node, 5);
    let text = "";
    const shape = (element, style) => {
      const colour = style.backgroundColor;
      const box = boxOf(element);
      if (/^(transparent|rgba\(.*, 0\))$/.test(colour) || box.width === 0) return;
      const { x, y, width, height } = place(box);
      text += `<rect x="${x}" y="${y.toFixed(2)}" width="${width}" height="${height}"${attribute("fill", colour)}></rect>`;
    };
    const line = (words, box, style) => {
      if (!words.trim() || box.width === 0 || (lines += 1) > MAX_LINES) return;
      const { x, y, width } = place(box);
      const size = parseFloat(style.fontSize); // CSS pixels are user units here
      // The height of a line is the font's ascent and descent, about four to one.
      const baseline = y + box.height * toLocal.d * 0.79;
      text += `<text x="${x}" y="${baseline.toFixed(2)}" font-size="${size.toFixed(2)}"`;
      text += ` textLength="${width}" lengthAdjust="spacingAndGlyphs"`;
      for (const [name, value] of [["fill", style.color], ["font-family", style.fontFamily.replace(/"/g, "'")],
        ["font-weight", style.fontWeight], ["font-style", style.fontStyle]]) text += attribute(name, value);
      text += `>${escapeText(words.trim())}</text>`;
    };
    for (let each = TreeWalker.prototype.nextNode.call(walker); each; each = TreeWalker.prototype.nextNode.call(walker)) {
      const element = typeOf(each) === 1 ? each : reader(Node, "parentElement")(each);
      if (!Element.prototype.checkVisibility.call(element, { visibilityProperty: true, opacityProperty: true })) continue;
      const style = getComputedStyle(element);
      if (element === each) {
        shape(each, style);
        continue;
      }
      // Words at the same height form a line.
      const range = new Range();
      let [words, box] = ["", null];
      for (const { 0: word, index } of dataOf(each).matchAll(/\S+\s*/g)) {
        range.setStart(each, index);
        range.setEnd(each, index + word.trimEnd().length);
        const next = range.getBoundingClientRect();
        if (box && Math.abs(next.top - box.top) < box.height / 2) {
          words += word;
          box = new DOMRect(box.left, box.top, next.right - box.left, box.height);
        } else {
          if (box) line(words, box, style);
          [words, box] = [word, next];
        }
      }
      if (box) line(words, box, style);
    }
    put(`<g${attributesText(node, "foreignObject", null)}>${text}</g>`);
    return true;
  };
  const writeElement = (node, depth, scope) => {
    const html = namespaceOf(node) === HTML;
    const name = nameOf(node);
    if (!names.has(name)) names.set(name, !LEFT_OUT.has(name) && ATTRIBUTE_NAME.test(name));
    if (depth > DEPTH || !names.get(name)) {
      truncated ||= depth > DEPTH;
      return;
    }
    if (!html) {
      if (name === "use" && attempt(() => writeUse(node, depth, scope), false)) return;
      if (name === "foreignObject" && attempt(() => writeForeign(node), false)) return;
      if (name === "image" && attempt(() => writePicture(node), false)) return;
      const look = isDrawing(node, name) ? lookOf(node) : shapeLook(node, name);
      put(`<${name}${attributesText(node, name, null)}${look}>`);
      children(node, depth + 1, scope, false);
      put(`</${name}>`);
      return;
    }
    if (name === "style") return void writeStyle(node, scope);
    if (name === "slot" && inShadow(node)) return void slotted(node, depth + 1, scope);
    if (Object.hasOwn(FRAMES, name)) return void writeFrame(node, name, depth);
    if (name === "canvas" && writeCanvas(node)) return;
    if (name === "meta" && Element.prototype.hasAttribute.call(node, "charset")) return;
    if (name === "link" && /stylesheet/i.test(Element.prototype.getAttribute.call(node, "rel") || "")) {
      return void writeLink(node, scope);
    }
    attempt(() => markBeginning(node, name));
    const shadow = shadowOf(node);
    const own = shadow ? { id: (hosts += 1), outer: scope } : null;
    put(`<${name}${attributesText(node, name, own)}>`);
    if (VOID.has(name)) return;
    // The HTML parser drops a line break after these start tags.
    if (name === "head") put('<meta charset="utf-8">');
    if (name === "textarea") put("\n" + escapeText(attempt(() => reader(HTMLTextAreaElement, "value")(node), "")));
    else if (shadow) shadowChildren(node, shadow, depth + 1, own);
    else {
      if (name === "pre" || name === "listing") put("\n");
      children(node, depth + 1, scope, RAW.has(name));
    }
    if (name === "head") adoptedStyles(node);
    put(`</${name}>`);
  };
  const adoptedStyles = (head) => {
    const owner = reader(Node, "ownerDocument")(head);
    for (const sheet of adoptedOf(owner, Document)) {
      if (sheet.disabled) continue;
      putStyle(attempt(() => cssText(sheet), ""), attribute("data-weboid-adopted", ""), base);
    }
    const faces = attempt(() => addedFaces(owner), []);
    if (faces.length) putStyle(faces.join("\n"), attribute("data-weboid-adopted", ""), base);
  };
  // From guard.js: fonts added by scripts, as rules.
  const addedFaces = (page) => {
    const faces = [];
    const detailOf = reader(CustomEvent, "detail");
    const add = (event) => {
      const face = detailOf(event);
      if (faces.length < 20 && typeof face === "string" && face.length < 1500000) faces.push(face);
    };
    EventTarget.prototype.addEventListener.call(page, "weboid-face", add, true);
    EventTarget.prototype.dispatchEvent.call(page, new Event("weboid-faces"));
    EventTarget.prototype.removeEventListener.call(page, "weboid-face", add, true);
    return faces;
  };
  const write = (node, depth, scope, raw) => {
    const type = typeOf(node);
    if (type === 1) writeElement(node, depth, scope);
    else if (type === 3 || type === 4) {
      // Raw text cannot be escaped: remove what would end its element.
      put(raw ? dataOf(node).replace(/<\//g, "") : escapeText(dataOf(node)));
    }
  };
  const writeDocument = (page, depth) => {
    base = baseOf(page);
    const doctype = doctypeOf(page);
    if (doctype) {
      const publicId = doctype.publicId.replace(/["<>]/g, "");
      const systemId = doctype.systemId.replace(/["<>]/g, "");
      let tail = "";
      if (publicId) tail = ` PUBLIC "${publicId}"` + (systemId ? ` "${systemId}"` : "");
      else if (systemId) tail = ` SYSTEM "${systemId}"`;
      put(`<!DOCTYPE ${doctype.name.replace(/[^\w.:-]/g, "") || "html"}${tail}>\n`);
    }
    query(page, "weboid-sheets", "weboid-changed", changed);
    query(page, "weboid-scenes", "weboid-undrawn", undrawn);
    const root = rootOf(page);
    const outside = tested;
    tested = testedBy([...attempt(() => reader(Document, "styleSheets")(page), []), ...adoptedOf(page, Document)]);
    // Store the URL of a framed document, by which it can be withheld; its element may have another.
    if (page !== document || attempt(() => window.parent !== window, true)) {
      [framedRoot, framedUrl] = [root, attempt(() => reader(Document, "URL")(page), "")];
    }
    if (root) write(root, depth, null, false);
    tested = outside;
  };

  writeDocument(document, 0);
  return { parts: [...parts, written], truncated, canvases, undrawn: undrawn.size };
}
