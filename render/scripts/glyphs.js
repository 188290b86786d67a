// Returns the indexes of the lists in `samples` that contain a character without a glyph: one that renders
// like an unassigned code point. The page's fonts are included.
(samples) => {
  "use strict";
  const families = new Set();
  const fonts = Object.getOwnPropertyDescriptor(Document.prototype, "fonts").get.call(document);
  for (const face of fonts) {
    if (face.status === "loaded" && families.size < 50) families.add(face.family.replace(/^"|"$/g, ""));
  }
  const canvas = Document.prototype.createElement.call(document, "canvas");
  canvas.width = canvas.height = 40;
  const pen = HTMLCanvasElement.prototype.getContext.call(canvas, "2d", { willReadFrequently: true });
  const own = [...families].map((family) => `${JSON.stringify(family)}, `);
  const drawn = (text, before) => {
    pen.clearRect(0, 0, 40, 40);
    pen.font = `24px ${before}sans-serif`;
    pen.fillText(text, 4, 30);
    return pen.getImageData(0, 0, 40, 40).data.join();
  };
  const boxes = new Map();
  const isMissing = (character, before) => {
    // The placeholder is that of the first font, so it depends on the list of fonts.
    if (!boxes.has(before)) boxes.set(before, drawn("\u{1FFFF}", before));
    return drawn(character, before) === boxes.get(before);
  };
  const isBox = (character) => isMissing(character, "") && own.every((before) => isMissing(character, before));
  return [...samples.keys()].filter((at) => samples[at].some(isBox));
}
