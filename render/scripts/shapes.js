// Computed style of an SVG's shapes, as far as their attributes do not determine it.
//
// The page's style sheets apply to the shapes of an inline SVG, but not if it is shown as an image. So
// `look` returns a shape's computed style, as declarations, without what its attributes and inheritance
// within the SVG determine. Geometry properties (x, r, d, …) are included.
//
// Each computed value takes about a microsecond. So when `enough` shapes of a kind (same painting
// attributes, and parents of the same kind) look alike, the rest of the kind is assumed to; and at most
// `most` shapes are measured.
// `reader` and `attempt` are those of the including script.
(reader, attempt, enough, most) => {
  "use strict";
  const namespaceOf = reader(Element, "namespaceURI");
  const parentOf = reader(Node, "parentNode");
  const typeOf = reader(Node, "nodeType");
  const hostOf = reader(ShadowRoot, "host");
  const attributeOf = (node, key) => Element.prototype.getAttribute.call(node, key);
  const SVG = "http://www.w3.org/2000/svg";
  const words = (text) => text.trim().split(/\s+/);
  const table = (text) => new Map(words(text).map((each) => each.split("=")).map(([key, value]) => [key, value.replace(/_/g, " ")]));
  // Inherited and other properties, each with its initial value.
  const PAINTED = table(`color=rgb(0,_0,_0) fill=rgb(0,_0,_0) fill-opacity=1 fill-rule=nonzero stroke=none stroke-width=1px
    stroke-opacity=1 stroke-dasharray=none stroke-dashoffset=0px stroke-linecap=butt stroke-linejoin=miter
    stroke-miterlimit=4 visibility=visible clip-rule=nonzero paint-order=normal marker-start=none marker-mid=none marker-end=none`);
  const WRITTEN = table(`font-size= font-family= font-weight=400 font-style=normal letter-spacing=normal word-spacing=0px
    text-anchor=start dominant-baseline=auto`);
  const OWN = table("opacity=1 clip-path=none mask=none filter=none mix-blend-mode=normal");
  const OF_TEXT = table("baseline-shift=0px text-decoration-line=none");
  const STOP = table("stop-color=rgb(0,_0,_0) stop-opacity=1");
  const PLACES = {
    rect: ["x", "y", "width", "height", "rx", "ry"], circle: ["cx", "cy", "r"], ellipse: ["cx", "cy", "rx", "ry"],
    image: ["x", "y", "width", "height"], svg: ["x", "y", "width", "height"], path: ["d"],
  };
  const UNSEEN = /^(title|desc|metadata|style|script|animate\w*|set|filter|fe[A-Z]\w*)$/;
  const APART = /^(stop|defs|symbol|pattern|marker|mask|clipPath|\w+Gradient)$/; // not rendered directly
  const COLOURS = new Set(["color", "fill", "stroke", "stop-color"]);
  const MODERN = /^(?!rgba?\(|hsla?\(|url\()[\w-]+\(/; // functions that older browsers do not support
  const MAX_PATH_LENGTH = 1000; // characters of paths that are compared
  const MAX_VALUE_LENGTH = 300; // characters
  // Attributes that do not distinguish kinds of shapes, such as positions.
  const PLACED = /^(id|d|points|transform|[xy][12]?|[cf][xy]|r|r[xy]|d[xy]|width|height|viewBox|href|xlink:href|offset|(data|aria|on)[\w-]*)$/i;

  const computed = (style, key) => CSSStyleDeclaration.prototype.getPropertyValue.call(style, key);
  const plain = (text) => text.trim().toLowerCase().replace(/["']/g, "").replace(/px\b/g, "").replace(/[\s,]+/g, " ");
  const isNear = (a, b) => Math.abs(a - b) <= 1e-4 * Math.max(1, Math.abs(a));
  let context = null;
  const painted = new Map(); // rendered colour by its notation; "" if it is invalid
  const pixel = (text) => {
    if (painted.has(text)) return painted.get(text);
    context ??= OffscreenCanvas.prototype.getContext.call(new OffscreenCanvas(1, 1), "2d", { willReadFrequently: true });
    context.fillStyle = "#010203";
    context.fillStyle = text;
    let colour = "";
    if (context.fillStyle !== "#010203") {
      context.clearRect(0, 0, 1, 1);
      context.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
      colour = alpha === 255 ? `rgb(${red},${green},${blue})` : `rgba(${red},${green},${blue},${(alpha / 255).toFixed(3)})`;
    }
    painted.set(text, colour);
    return colour;
  };
  const hexed = (hex) => {
    const digits = hex.length === 3 ? hex.replace(/./g, "$&$&") : hex;
    return `rgb(${[0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16)).join(" ")})`;
  };
  const isSame = (key, own, value) => {
    // Return whether the attribute has the computed value.
    if (own === value) return true;
    if (MODERN.test(own)) return false;
    const [ownNumber, number] = [Number(own), Number(value.replace(/px$/, ""))];
    if (own !== "" && !Number.isNaN(ownNumber) && !Number.isNaN(number)) return isNear(ownNumber, number);
    const [left, right] = [plain(own), plain(value)];
    if (left === right || (left !== "" && isNear(Number(left), Number(right)))) return true;
    if (key === "font-weight") return { bold: "700", normal: "400" }[left] === right;
    if (!COLOURS.has(key) || left === "none" || right === "none") return false;
    const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/.exec(left)?.[1];
    if (hex) return hexed(hex) === right;
    return pixel(left) !== "" && pixel(left) === pixel(right);
  };
  const written = (key, value) => {
    // Convert newer colour functions (oklch(), color-mix()) to rgb().
    if (COLOURS.has(key) && MODERN.test(value)) return pixel(value) || value;
    return value
      .replace(/"/g, "'")
      .replace(/url\('?(#[^()\s'"]+)'?\)/g, "url($1)")
      .replace(/, /g, ",");
  };
  const isWritable = (value) => value.length <= MAX_VALUE_LENGTH && !/[;:]/.test(value);
  const numbers = (text) => (text.match(/-?(?:\d+\.?|\.\d)\d*(?:e[-+]?\d+)?/gi) ?? []).map(Number);
  const areNear = (a, b) => a.length === b.length && a.every((each, at) => isNear(each, b[at]));

  const TURNS = ["translate", "rotate", "scale"];
  const sixOf = (matrix) => [matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f];
  const transformOf = (node, style) => {
    // Return a matrix relative to the parent's origin, or null if the attribute determines it.
    const value = computed(style, "transform");
    const own = attributeOf(node, "transform");
    const apart = TURNS.map((key) => computed(style, key));
    const isTurned = apart.some((each) => each !== "none");
    if (value === "none" && !isTurned) return own ? "matrix(1 0 0 1 0 0)" : null;
    const moved = own && own.length < 100 && /^\s*translate\(\s*([-+.\de]+)[\s,]*([-+.\de]*)\s*\)\s*$/.exec(own);
    if (moved && !isTurned && areNear(numbers(value), [1, 0, 0, 1, Number(moved[1]), Number(moved[2])])) return null;
    let matrix = new DOMMatrix(value === "none" ? "" : value);
    if (isTurned) {
      // CSS Transforms 2, 5: these precede `transform`.
      const [shifted, turned, scaled] = apart.map((each) => (each === "none" ? "" : each.replace(/ /g, ",")));
      const parts = [shifted && `translate(${shifted})`, turned && `rotate(${turned})`, scaled && `scale(${scaled})`];
      matrix = new DOMMatrix(parts.join(" ")).multiply(matrix);
    }
    if (!matrix.is2D) return null;
    const origin = numbers(computed(style, "transform-origin")).slice(0, 2);
    const [x, y] = origin.length === 2 ? origin : [0, 0];
    if (own && !isTurned) {
      const list = reader(SVGGraphicsElement, "transform")(node).baseVal;
      let stated = new DOMMatrix();
      for (let at = 0; at < list.numberOfItems; at += 1) stated = stated.multiply(DOMMatrix.fromMatrix(list.getItem(at).matrix));
      if (areNear(sixOf(stated), sixOf(matrix)) && x === 0 && y === 0) return null;
    }
    if (x !== 0 || y !== 0) {
      const box = /fill-box|content-box|stroke-box|border-box/.test(computed(style, "transform-box"))
        ? SVGGraphicsElement.prototype.getBBox.call(node)
        : { x: 0, y: 0 };
      const [left, top] = [x + box.x, y + box.y];
      matrix = new DOMMatrix().translate(left, top).multiply(matrix).translate(-left, -top);
    }
    return `matrix(${sixOf(matrix).map((each) => Number(each.toFixed(5))).join(" ")})`;
  };
  let probe = null;
  const isPath = (own, value) => {
    // Compare the browser's serialisation of the attribute's path.
    probe ??= Document.prototype.createElementNS.call(document, SVG, "path");
    const style = reader(SVGElement, "style")(probe);
    CSSStyleDeclaration.prototype.setProperty.call(style, "d", `path("${own.replace(/["\\\n]/g, " ")}")`);
    return computed(style, "d") === value;
  };
  const boxed = (node, key) => {
    const box = SVGGraphicsElement.prototype.getBBox.call(node);
    const values = { x: box.x, y: box.y, width: box.width, height: box.height, cx: box.x + box.width / 2, cy: box.y + box.height / 2 };
    return String(values[key] ?? (key === "ry" ? box.height : box.width) / 2);
  };
  const placesOf = (node, name, style, declare) => {
    for (const key of Object.hasOwn(PLACES, name) ? PLACES[name] : []) {
      const own = attributeOf(node, key);
      if (key === "d") {
        // The computed path is absolute, so paths with relative commands are not compared.
        if (own && (own.length > MAX_PATH_LENGTH || /[mlhvcsqta]/.test(own))) continue;
        const path = computed(style, key);
        if (path.startsWith("path(") && path.length <= 2 * MAX_PATH_LENGTH && !isPath(own ?? "", path)) declare(key, path.slice(6, -2));
        continue;
      }
      const value = computed(style, key);
      if (value === "auto" || isSame(key, own ?? "0px", value) || (own === null && value === "100%")) continue;
      const isPlain = !value.includes("(") || name === "svg" || key.startsWith("r") && name === "rect";
      declare(key, (isPlain ? value : boxed(node, key)).replace(/px$/, ""));
    }
  };

  const STROKED = words("stroke-width stroke-dasharray stroke-dashoffset");
  const strokeOf = (node, values, declare) => {
    // Convert a stroke width that does not scale to one that does.
    const seen = attempt(() => SVGGraphicsElement.prototype.getScreenCTM.call(node), null);
    const scale = seen ? Math.sqrt(Math.abs(seen.a * seen.d - seen.b * seen.c)) : 0;
    if (scale <= 0 || isNear(scale, 1)) return;
    const scaled = (text) => text.replace(/[\d.]+(?:e[-+]?\d+)?/g, (each) => String(Number((each / scale).toFixed(4))));
    for (const key of STROKED) if (/[1-9]/.test(values.get(key))) declare(key, written(key, scaled(values.get(key))));
  };

  const NOTHING = new Map();
  const known = new Map(); // by shape: inherited computed values, kind
  const kinds = new Map(); // by kind: common style
  let count = 0;
  const above = (node) => {
    for (let at = parentOf(node), steps = 0; at && steps < 50; steps += 1) {
      if (known.has(at)) return known.get(at);
      at = typeOf(at) === 11 && at instanceof ShadowRoot ? hostOf(at) : parentOf(at);
    }
    return null;
  };
  const painting = new Map(); // by attribute name: whether it may change a shape's look
  const kindOf = (node, name, kind) => {
    let text = `${kind} ${name}`;
    for (const key of Element.prototype.getAttributeNames.call(node)) {
      let paints = painting.get(key);
      if (paints === undefined) painting.set(key, (paints = !PLACED.test(key)));
      if (paints) text += `\n${key}=${attributeOf(node, key)}`;
    }
    return text;
  };
  const measure = (node, name, inherited, hasText) => {
    const style = getComputedStyle(node);
    const values = new Map();
    const declared = [];
    const declare = (key, value) => (isWritable(value) || key === "d") && declared.push(`${key}:${value}`);
    if (!APART.test(name) && computed(style, "display") === "none") return { values: null, declared: ["display:none"] };
    const has = new Set(Element.prototype.getAttributeNames.call(node));
    const inline = has.has("style") ? reader(SVGElement, "style")(node) : null;
    const compare = (key, base) => {
      const value = computed(style, key);
      if (base === undefined) base = value;
      const own = has.has(key) ? attributeOf(node, key) : null;
      const styled = inline ? computed(inline, key) : "";
      const isDetermined = styled ? isSame(key, styled, value) : own === null ? value === base : isSame(key, own, value) || (/^currentcolor$/i.test(own) && value === values.get("color"));
      if (!isDetermined) declare(key, key !== "color" && COLOURS.has(key) && value === values.get("color") ? "currentColor" : written(key, value));
      return value;
    };
    if (name === "stop") {
      values.set("color", computed(style, "color"));
      for (const [key, base] of STOP) compare(key, base);
      return { values: inherited, declared };
    }
    if (/^none$/i.test(attributeOf(node, "display") ?? "")) declare("display", "inline");
    for (const key of PAINTED.keys()) values.set(key, compare(key, inherited.get(key)));
    if (computed(style, "vector-effect") === "non-scaling-stroke") strokeOf(node, values, declare);
    for (const key of hasText ? WRITTEN.keys() : []) values.set(key, compare(key, inherited.get(key)));
    for (const [key, base] of OWN) compare(key, base);
    if (name === "text" || name === "tspan") for (const [key, base] of OF_TEXT) compare(key, base);
    const transform = node instanceof SVGGraphicsElement && !/^(tspan|textPath)$/.test(name) ? attempt(() => transformOf(node, style), null) : null;
    if (transform) declare("transform", transform);
    attempt(() => placesOf(node, name, style, declare));
    return { values, declared };
  };
  return {
    // Return the inherited style of an outermost SVG, except the properties `LOOK` of dom.js.
    begin: (node) => {
      const hasText = Element.prototype.querySelector.call(node, "text") !== null;
      const style = getComputedStyle(node);
      const values = new Map();
      const declared = [];
      for (const [key, base] of [...PAINTED, ...(hasText ? WRITTEN : NOTHING)]) {
        const value = computed(style, key);
        values.set(key, value);
        const text = written(key, value);
        const isNeeded = COLOURS.has(key) ? text.startsWith("url(") || MODERN.test(value) : value !== base;
        if (isNeeded && isWritable(text)) declared.push([key, text]);
      }
      known.set(node, { values, kind: kindOf(node, "svg", ""), hasText });
      return declared;
    },
    // Return the declarations of a shape; "" if its attributes determine its style.
    look: (node, name) => {
      const parent = namespaceOf(node) === SVG && !UNSEEN.test(name) ? above(node) : null;
      if (!parent || !parent.values) {
        if (parent) known.set(node, parent);
        return "";
      }
      const kind = kindOf(node, name, parent.kind);
      let like = kinds.get(kind);
      if (like === undefined) kinds.set(kind, (like = { text: null, values: parent.values, number: kinds.size, count: 0 }));
      if ((like.count >= enough && like.text !== null) || count >= most) {
        known.set(node, { values: like.values, kind: like.number, hasText: parent.hasText });
        return like.text ?? "";
      }
      count += 1;
      like.count += 1;
      const { values, declared } = measure(node, name, parent.values, parent.hasText);
      const text = declared.join(";");
      if (like.count === 1) [like.text, like.values] = [text, values];
      else if (like.text !== text) like.text = null;
      known.set(node, { values, kind: like.number, hasText: parent.hasText });
      return text;
    },
  };
}
