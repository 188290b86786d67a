// Scroll a frame into view; return its visible part in page coordinates, in CSS pixels: [x, y, width, height].
async (number) => {
  const frame = Document.prototype.querySelectorAll.call(document, "iframe")[number];
  if (!frame) return null;
  Element.prototype.scrollIntoView.call(frame, { block: "center", behavior: "instant" });
  await new Promise((drawn) => {
    setTimeout(drawn, 500);
    requestAnimationFrame(() => requestAnimationFrame(drawn));
  });
  const box = Element.prototype.getBoundingClientRect.call(frame);
  const [left, top] = [Math.max(box.left, 0), Math.max(box.top, 0)];
  const [right, bottom] = [Math.min(box.right, innerWidth), Math.min(box.bottom, innerHeight)];
  if (right - left < 1 || bottom - top < 1) return null;
  return [left + scrollX, top + scrollY, right - left, bottom - top];
}
