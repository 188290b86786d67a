// What a worker of a full copy finds; runs before wombat's half for workers. See full.js.
(function () {
  "use strict";
  const fetched = self.fetch;
  // Modules run without wombat: this sets their URL, against which their requests are resolved.
  const place = self.weboidPlace;
  const archived = (url) => {
    if (!place) return url;
    const { href } = new URL(String(url), place.base);
    return /^https?:/.test(href) && !href.startsWith(place.origin) ? place.prefix + href : href;
  };
  // No credentials exist here, and the archive allows none; wombat asks with them all the same.
  self.fetch = function (input, init) {
    const request = input instanceof Request ? (place ? new Request(archived(input.url), input) : input) : archived(input);
    return fetched.call(self, request, { ...init, credentials: "omit" });
  };
  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...more) { return open.call(this, method, archived(url), ...more); };
  Object.defineProperty(XMLHttpRequest.prototype, "withCredentials", { get: () => false, set: () => {}, configurable: true });
  for (const name of ["WebTransport", "caches", "SharedWorker"]) {
    try { delete self[name]; } catch (error) { /* it stays, and is refused by the content policy */ }
  }
})();
