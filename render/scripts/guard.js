// Runs in the page's own world before its first script: the little that must not work there.
() => {
  "use strict";
  // Closed shadow roots are closed to us too, and what they hold would be missing from the copy.
  Element.prototype.attachShadow = new Proxy(Element.prototype.attachShadow, {
    apply: (attach, host, [options, ...rest]) =>
      Reflect.apply(attach, host, [options && { ...options, mode: "open" }, ...rest]),
  });

  // Changes of a sheet's rules by scripts are in no markup. dom.js queries the document for them, and
  // each element whose sheet has changed answers.
  const MOST = 5000; // rules whose text is remembered; a sheet with more counts as changed
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
    // Again each time: a document that is opened again forgets who listens.
    call(addEventListener, document, ["weboid-sheets", answer]);
  };
  const remember = (rule) => {
    const sheet = sheetOf(rule);
    if (!sheet || texts.has(rule)) return;
    if (texts.size >= MOST) return void note(sheet);
    texts.set(rule, textOf(rule));
    call(addEventListener, document, ["weboid-sheets", answer]);
  };
  const attempt = (action, object) => {
    try {
      action(object);
    } catch {
      // It is no object of the kind, and the browser says so.
    }
  };

  // Fonts that scripts add are in no style sheet. dom.js queries the document for them, and each answers as a rule.
  const MOST_FACES = 20;
  const LONGEST_FACE = 1000000; // bytes
  const FACE = ["family", "style", "weight", "stretch", "unicodeRange", "status"].map((name) => reader(FontFace, name));
  const [setOf, NativeCustomEvent] = [reader(Document, "fonts"), CustomEvent];
  const { has } = Object.getPrototypeOf(setOf(document)); // of no named interface
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
    if (faces.size >= MOST_FACES) return;
    if (typeof source !== "string") {
      const view = ArrayBuffer.isView(source);
      if (source.byteLength > LONGEST_FACE) return;
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

  // What a scene shows is gone from its canvas once it is on the screen, unless it was asked to stay there;
  // and a page that wants no slow drawing gets one as readers' graphics cards make it. dom.js queries the
  // document for scenes that the browser refused: canvases, or the document itself for WebGPU.
  const SCENES = new Set(["webgl", "webgl2", "experimental-webgl"]);
  const SHOWN = { preserveDrawingBuffer: true, failIfMajorPerformanceCaveat: false };
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
      const wanted = isScene ? { ...options, ...SHOWN } : options;
      const context = call(getContext, canvas, [kind, wanted, ...rest]);
      if (isScene && !context && !drawn.has(canvas)) refused(canvas);
      if (!context) return context;
      if (isScene && !drawn.has(canvas)) {
        call(addEventListener, canvas, ["webglcontextlost", () => refused(canvas)]);
        call(addEventListener, canvas, ["webglcontextrestored", () => undrawn.delete(canvas)]);
        // A page that was refused WebGPU draws by WebGL.
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
  const heard = (method, before, after) =>
    new Proxy(method, {
      apply: (original, object, values) => {
        attempt(before, object);
        const result = call(original, object, values);
        attempt(after, object);
        return result;
      },
    });
  for (const name of ["insertRule", "deleteRule", "addRule", "removeRule"]) {
    CSSStyleSheet.prototype[name] = heard(CSSStyleSheet.prototype[name], nothing, note);
  }
  for (const type of [CSSGroupingRule, CSSStyleRule, CSSKeyframesRule]) {
    for (const name of ["insertRule", "deleteRule", "appendRule"]) {
      if (!Object.hasOwn(type.prototype, name)) continue;
      type.prototype[name] = heard(type.prototype[name], nothing, (rule) => note(sheetOf(rule)));
    }
  }
  for (const [type, name, way] of [
    [CSSStyleRule, "style", "get"], [CSSStyleRule, "styleMap", "get"], [CSSStyleRule, "selectorText", "set"],
    [CSSKeyframeRule, "style", "get"], [CSSMediaRule, "media", "get"],
  ]) {
    const property = Object.getOwnPropertyDescriptor(type.prototype, name);
    if (!property) continue;
    property[way] = heard(property[way], remember, nothing);
    Object.defineProperty(type.prototype, name, property);
  }
}
