// Returns the indexes of frames below the viewport.
(limit) => {
  const frames = [...Document.prototype.querySelectorAll.call(document, "iframe")];
  const boxes = frames.map((frame) => Element.prototype.getBoundingClientRect.call(frame));
  const isFar = (box) => box.bottom > innerHeight && box.width >= 1 && box.height >= 1;
  return [...boxes.keys()].filter((number) => isFar(boxes[number])).slice(0, limit);
}
