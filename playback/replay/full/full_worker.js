// Replacements for APIs in workers of a full copy. Runs before wombat's script for workers. See full.js.
(function () {
  "use strict";
  const fetched = self.fetch;
  // Modules run without wombat: their requests are resolved against this URL.
  const place = self.weboidPlace;
  const archived = (url) => {
    if (!place) return url;
    const { href } = new URL(String(url), place.base);
    return /^https?:/.test(href) && !href.startsWith(place.origin) ? place.prefix + href : href;
  };
  // There are no credentials, and the archive's CORS headers do not allow them; wombat requests them anyway.
  self.fetch = function (input, init) {
    const request = input instanceof Request ? (place ? new Request(archived(input.url), input) : input) : archived(input);
    return fetched.call(self, request, { ...init, credentials: "omit" });
  };
  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...more) { return open.call(this, method, archived(url), ...more); };
  Object.defineProperty(XMLHttpRequest.prototype, "withCredentials", { get: () => false, set: () => {}, configurable: true });
  for (const name of ["WebTransport", "caches", "SharedWorker"]) {
    try { delete self[name]; } catch (error) { /* the content security policy refuses it */ }
  }
})();
