// Runs in the page's main world before its first script: records and changes the few calls that a copy needs.
() => {
  "use strict";
  // Make closed shadow roots open; their content would be missing from the copy otherwise.
  Element.prototype.attachShadow = new Proxy(Element.prototype.attachShadow, {
    apply: (attach, host, [options, ...rest]) =>
      Reflect.apply(attach, host, [options && { ...options, mode: "open" }, ...rest]),
  });

  // Scripts can change the rules of a style sheet, which the markup does not show. dom.js queries the document,
  // and each element whose sheet has changed answers.
  const MAX_RULES = 5000; // rules whose text is recorded; a sheet with more counts as changed
  const reader = (type, name) => {
    const { get } = Object.getOwnPropertyDescriptor(type.prototype, name);
    return (object) => get.call(object);
  };
  const [call, NativeEvent] = [Reflect.apply, Event];
  const { addEventListener, dispatchEvent } = EventTarget.prototype;
  const [ownerOf, aboveOf] = [reader(StyleSheet, "ownerNode"), reader(StyleSheet, "parentStyleSheet")];
  const [sheetOf, textOf] = [reader(CSSRule, "parentStyleSheet"), reader(CSSRule, "cssText")];
  const changed = new Set();
  const texts = new Map();
  const answer = () => {
    for (const [rule, text] of texts) if (textOf(rule) !== text) note(sheetOf(rule));
    for (const node of changed) call(dispatchEvent, node, [new NativeEvent("weboid-changed")]);
  };
  const note = (sheet) => {
    while (sheet && aboveOf(sheet)) sheet = aboveOf(sheet);
    const node = sheet && ownerOf(sheet);
    if (!node) return;
    changed.add(node);
    // Repeated, since document.open() removes event listeners.
    call(addEventListener, document, ["weboid-sheets", answer]);
  };
  const remember = (rule) => {
    const sheet = sheetOf(rule);
    if (!sheet || texts.has(rule)) return;
    if (texts.size >= MAX_RULES) return void note(sheet);
    texts.set(rule, textOf(rule));
    call(addEventListener, document, ["weboid-sheets", answer]);
  };
  const attempt = (action, object) => {
    try {
      action(object);
    } catch {
      // The object is of another type; the browser reports that.
    }
  };

  // Fonts that scripts add are in no style sheet. dom.js queries the document, and each font answers with a rule.
  const MAX_FACES = 20;
  const MAX_FACE_BYTES = 1000000;
  const FACE = ["family", "style", "weight", "stretch", "unicodeRange", "status"].map((name) => reader(FontFace, name));
  const [setOf, NativeCustomEvent] = [reader(Document, "fonts"), CustomEvent];
  const { has } = Object.getPrototypeOf(setOf(document)); // FontFaceSet has no global name
  const faces = new Map();
  const asData = (bytes) => `url("data:font/ttf;base64,${btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""))}")`;
  const answerFaces = () => {
    for (const [face, source] of faces) {
      if (!call(has, setOf(document), [face])) continue;
      const [family, style, weight, stretch, range, status] = FACE.map((read) => read(face));
      if (status === "error") continue;
      const name = family.replace(/^["']|["']$/g, "").replace(/["\\\n]/g, "");
      const text =
        `@font-face { font-family: "${name}"; font-style: ${style}; font-weight: ${weight}; font-stretch: ${stretch}; ` +
        `unicode-range: ${range}; src: ${typeof source === "string" ? source : asData(source)} }`;
      call(dispatchEvent, document, [new NativeCustomEvent("weboid-face", { detail: text })]);
    }
  };
  const rememberFace = (face, source) => {
    if (faces.size >= MAX_FACES) return;
    if (typeof source !== "string") {
      const view = ArrayBuffer.isView(source);
      if (source.byteLength > MAX_FACE_BYTES) return;
      source = new Uint8Array(view ? source.buffer : source, view ? source.byteOffset : 0, source.byteLength).slice();
    }
    faces.set(face, source);
    call(addEventListener, document, ["weboid-faces", answerFaces]);
  };
  globalThis.FontFace = new Proxy(FontFace, {
    construct: (native, [family, source, ...rest], target) => {
      const face = Reflect.construct(native, [family, source, ...rest], target);
      attempt(() => rememberFace(face, source));
      return face;
    },
  });

  // Keep the drawing buffer of WebGL, so that the canvas can be read; and allow software rendering, since readers'
  // graphics cards render the scene. dom.js queries the document for scenes that the browser refused: canvases,
  // or the document itself for WebGPU.
  const SCENES = new Set(["webgl", "webgl2", "experimental-webgl"]);
  const OPTIONS = { preserveDrawingBuffer: true, failIfMajorPerformanceCaveat: false };
  const [drawn, undrawn] = [new WeakSet(), new Set()];
  let scenes = 0;
  const answerUndrawn = () => {
    for (const node of undrawn) call(dispatchEvent, node, [new NativeEvent("weboid-undrawn")]);
  };
  const refused = (node) => {
    undrawn.add(node);
    call(addEventListener, document, ["weboid-scenes", answerUndrawn]);
  };
  HTMLCanvasElement.prototype.getContext = new Proxy(HTMLCanvasElement.prototype.getContext, {
    apply: (getContext, canvas, [kind, options, ...rest]) => {
      const isScene = SCENES.has(kind);
      const context = call(getContext, canvas, [kind, isScene ? { ...options, ...OPTIONS } : options, ...rest]);
      if (isScene && !context && !drawn.has(canvas)) refused(canvas);
      if (!context) return context;
      if (isScene && !drawn.has(canvas)) {
        call(addEventListener, canvas, ["webglcontextlost", () => refused(canvas)]);
        call(addEventListener, canvas, ["webglcontextrestored", () => undrawn.delete(canvas)]);
        // The page uses WebGL instead of WebGPU.
        undrawn.delete(document);
        scenes += 1;
      }
      drawn.add(canvas);
      undrawn.delete(canvas);
      return context;
    },
  });
  if (globalThis.GPU) {
    GPU.prototype.requestAdapter = new Proxy(GPU.prototype.requestAdapter, {
      apply: async (requestAdapter, gpu, values) => {
        const adapter = await call(requestAdapter, gpu, values);
        if (!adapter && !scenes) refused(document);
        return adapter;
      },
    });
  }

  const nothing = () => {};
  const intercepted = (method, before, after) =>
    new Proxy(method, {
      apply: (original, object, values) => {
        attempt(before, object);
        const result = call(original, object, values);
        attempt(after, object);
        return result;
      },
    });
  for (const name of ["insertRule", "deleteRule", "addRule", "removeRule"]) {
    CSSStyleSheet.prototype[name] = intercepted(CSSStyleSheet.prototype[name], nothing, note);
  }
  for (const type of [CSSGroupingRule, CSSStyleRule, CSSKeyframesRule]) {
    for (const name of ["insertRule", "deleteRule", "appendRule"]) {
      if (!Object.hasOwn(type.prototype, name)) continue;
      type.prototype[name] = intercepted(type.prototype[name], nothing, (rule) => note(sheetOf(rule)));
    }
  }
  for (const [type, name, way] of [
    [CSSStyleRule, "style", "get"], [CSSStyleRule, "styleMap", "get"], [CSSStyleRule, "selectorText", "set"],
    [CSSKeyframeRule, "style", "get"], [CSSMediaRule, "media", "get"],
  ]) {
    const property = Object.getOwnPropertyDescriptor(type.prototype, name);
    if (!property) continue;
    property[way] = intercepted(property[way], remember, nothing);
    Object.defineProperty(type.prototype, name, property);
  }
}
