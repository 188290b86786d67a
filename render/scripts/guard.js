// Runs in the page's own world before its first script: the little that must not work there.
() => {
  "use strict";
  const container = globalThis.ServiceWorkerContainer;
  if (container) {
    // A service worker would answer requests that the proxy must see.
    container.prototype.register = new Proxy(container.prototype.register, {
      apply: () => Promise.reject(new DOMException("Service workers are off.", "SecurityError")),
    });
  }
  // Closed shadow roots are closed to us too, and what they hold would be missing from the copy.
  Element.prototype.attachShadow = new Proxy(Element.prototype.attachShadow, {
    apply: (attach, host, [options, ...rest]) =>
      Reflect.apply(attach, host, [options && { ...options, mode: "open" }, ...rest]),
  });
}
