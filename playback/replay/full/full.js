// What a page finds in place of what it may not have. Runs first, before wombat and the page.
//
// A full copy has an opaque origin: cookies, storage, databases and service workers are refused to it,
// most of them by an exception that pages do not expect. Here they get stand-ins that last as long as
// the page. Nothing here protects anybody; the content policy does that, and the frame.
(function () {
  "use strict";
  const here = window.location.href;
  const put = (object, name, value) => {
    try {
      Object.defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true });
    } catch (error) { /* a page that froze it keeps what it has */ }
  };
  const get = (object, name, getter, setter) => {
    try {
      Object.defineProperty(object, name, { get: getter, set: setter, configurable: true, enumerable: true });
    } catch (error) { /* as above */ }
  };

  class MemoryStorage {
    #values = new Map();
    get length() { return this.#values.size; }
    key(index) { return [...this.#values.keys()][index] ?? null; }
    getItem(name) { return this.#values.get(String(name)) ?? null; }
    setItem(name, value) { this.#values.set(String(name), String(value)); }
    removeItem(name) { this.#values.delete(String(name)); }
    clear() { this.#values.clear(); }
  }
  const own = MemoryStorage.prototype;
  const storage = () => new Proxy(new MemoryStorage(), {
    get: (target, name) => {
      if (typeof name === "symbol" || name in own) {
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      }
      return target.getItem(name) ?? undefined;
    },
    set: (target, name, value) => { target.setItem(name, value); return true; },
    has: (target, name) => name in own || target.getItem(name) !== null,
    deleteProperty: (target, name) => { target.removeItem(name); return true; },
    ownKeys: (target) => Array.from({ length: target.length }, (_, index) => target.key(index)),
    getOwnPropertyDescriptor: (target, name) => {
      const value = typeof name === "string" ? target.getItem(name) : null;
      return value === null ? undefined : { value, configurable: true, enumerable: true, writable: true };
    },
  });
  // wombat has its own, which turns nothing into text; what cannot be configured it leaves alone.
  for (const name of ["localStorage", "sessionStorage"]) {
    Object.defineProperty(window, name, { value: storage(), configurable: false, enumerable: true, writable: false });
  }

  const cookies = new Map();
  get(Document.prototype, "cookie",
    () => [...cookies].map(([name, value]) => (name ? `${name}=${value}` : value)).join("; "),
    (text) => {
      const [pair, ...attributes] = String(text).split(";");
      const at = pair.indexOf("=");
      const name = at < 0 ? "" : pair.slice(0, at).trim();
      const value = pair.slice(at + 1).trim();
      const ends = attributes.some((each) => {
        const [key, when = ""] = each.split("=").map((part) => part.trim().toLowerCase());
        return (key === "max-age" && Number(when) <= 0) || (key === "expires" && Date.parse(when) <= Date.now());
      });
      if (ends) cookies.delete(name);
      else cookies.set(name, value);
    });

  // A database that cannot be opened is what pages expect of private windows.
  if (window.IDBFactory) {
    const refused = () => {
      const request = new EventTarget();
      request.readyState = "done";
      request.result = undefined;
      request.error = new DOMException("Nothing is kept in an archived copy.", "InvalidStateError");
      request.onerror = request.onsuccess = request.onupgradeneeded = request.onblocked = null;
      setTimeout(() => {
        const event = new Event("error", { cancelable: true });
        request.dispatchEvent(event);
        if (typeof request.onerror === "function") request.onerror(event);
      });
      return request;
    };
    put(IDBFactory.prototype, "open", refused);
    put(IDBFactory.prototype, "deleteDatabase", refused);
    put(IDBFactory.prototype, "databases", () => Promise.resolve([]));
  }
  for (const [object, name] of [[Navigator.prototype, "serviceWorker"], [window, "caches"], [window, "SharedWorker"],
    [window, "cookieStore"], [Navigator.prototype, "locks"], [Navigator.prototype, "sendBeacon"],
    [window, "RTCPeerConnection"], [window, "webkitRTCPeerConnection"], [window, "RTCDataChannel"],
    [window, "WebTransport"]]) {
    try { delete object[name]; } catch (error) { put(object, name, undefined); }
  }
  put(Navigator.prototype, "sendBeacon", () => true);

  // No credentials exist here, and the archive allows none.
  get(XMLHttpRequest.prototype, "withCredentials", () => false, () => {});
  const fetched = window.fetch;
  put(window, "fetch", function (input, init) {
    if (init && init.credentials) init = { ...init, credentials: "omit" };
    if (input instanceof Request && input.credentials === "include") input = new Request(input, { credentials: "omit" });
    return fetched.call(window, input, init);
  });

  // An address of the archive is foreign to an opaque origin, which may only start a worker that it made.
  // A module of another origin cannot be a worker's first script; imported by a first script it can. Until
  // it is there, messages are kept for it.
  const ownScript = document.currentScript && document.currentScript.src;
  const moduleStub = (address) => `importScripts(${JSON.stringify(new URL("worker.js", ownScript || here).href)});
    const early = [];
    const keep = (event) => { early.push(event); event.stopImmediatePropagation(); };
    addEventListener("message", keep);
    import(${JSON.stringify(address)}).then(() => {
      removeEventListener("message", keep);
      for (const { data, ports } of early) dispatchEvent(new MessageEvent("message", { data, ports: [...ports] }));
    }, (error) => { setTimeout(() => { throw error; }); });`;
  const RealWorker = window.Worker;
  if (RealWorker) {
    const started = function Worker(url, options) {
      // The real location: by now the document's base is the archived page's, and wombat has rewritten `url`.
      const address = new URL(String(url), here).href;
      if (/^(blob|data):/.test(address)) return new RealWorker(address, options);
      const isModule = options && options.type === "module";
      const text = isModule ? moduleStub(address) : `importScripts(${JSON.stringify(address)})`;
      const blob = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      return new RealWorker(blob, isModule ? { ...options, type: "classic" } : options);
    };
    started.prototype = RealWorker.prototype;
    put(window, "Worker", started);
  }

  // A history entry may change nothing but the fragment of an opaque origin's address; its state is kept.
  for (const name of ["pushState", "replaceState"]) {
    const real = History.prototype[name];
    put(History.prototype, name, function (state, title, url) {
      try {
        return url === undefined || url === null ? real.call(this, state, title) : real.call(this, state, title, url);
      } catch (error) {
        if (!(error instanceof DOMException) || error.name !== "SecurityError") throw error;
        return real.call(this, state, title);
      }
    });
  }
})();
