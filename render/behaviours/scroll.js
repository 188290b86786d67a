// Scroll down once, a viewport at a time, so that what loads on sight is seen; then back to the top.
// Ends after `limitMs`, at the bottom, or when the page has grown to `growth` times its height.
async (options) => {
  "use strict";
  const { limitMs } = options;
  const pauseMs = 50;
  const growth = 3;
  const maxHeight = 60000;
  const scrollHeight = Object.getOwnPropertyDescriptor(Element.prototype, "scrollHeight").get;
  const rootOf = Object.getOwnPropertyDescriptor(Document.prototype, "documentElement").get;
  const bodyOf = Object.getOwnPropertyDescriptor(Document.prototype, "body").get;
  const height = () =>
    Math.max(...[rootOf.call(document), bodyOf.call(document)].map((e) => (e ? scrollHeight.call(e) : 0)));
  const pause = () => new Promise((resolve) => setTimeout(resolve, pauseMs));
  const end = performance.now() + limitMs;
  const bottom = Math.min(maxHeight, height() * growth);
  let steps = 0;
  let at = 0;
  while (performance.now() < end && at + innerHeight < Math.min(height(), bottom)) {
    at += innerHeight;
    scrollTo({ top: at, behavior: "instant" });
    steps += 1;
    await pause();
  }
  scrollTo({ top: 0, behavior: "instant" });
  return { found: steps, done: steps, again: steps > 0 };
}
