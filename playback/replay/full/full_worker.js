// What a worker of a full copy finds; runs before wombat's half for workers. See full.js.
(function () {
  "use strict";
  const fetched = self.fetch;
  // No credentials exist here, and the archive allows none; wombat asks with them all the same.
  self.fetch = function (input, init) {
    return fetched.call(self, input, { ...init, credentials: "omit" });
  };
  Object.defineProperty(XMLHttpRequest.prototype, "withCredentials", { get: () => false, set: () => {}, configurable: true });
  for (const name of ["WebTransport", "caches", "SharedWorker"]) {
    try { delete self[name]; } catch (error) { /* it stays, and is refused by the content policy */ }
  }
})();
