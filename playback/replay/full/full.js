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
  // As the browser made them: wombat's show the addresses of the archived pages.
  const { fetch: fetched, Request: NativeRequest, URL: NativeURL } = window;
  const { get: urlOf } = Object.getOwnPropertyDescriptor(NativeRequest.prototype, "url");
  // Captures can only be read: what another method would send stands in the query of a GET instead, and
  // the archive answers with what the same body got at the capture.
  const BODY = 4000; // bytes; the archive knows a longer one by its method alone
  const isRead = (method) => /^(?:GET|HEAD|OPTIONS)$/i.test(method || "GET");
  const asQuery = (address, method, type, bytes) => {
    const body = bytes.length > BODY ? "" : `&__wb_post_data=${encodeURIComponent(btoa(String.fromCharCode(...bytes)))}`;
    const [place] = String(address).split("#");
    const query = `__wb_method=${method.toUpperCase()}&__wb_post_type=${encodeURIComponent((type || "").slice(0, 200))}${body}`;
    return `${place}${place.includes("?") ? "&" : "?"}${query}`;
  };
  put(window, "fetch", function (input, init) {
    const isRequest = input instanceof NativeRequest;
    if (isRead((init && init.method) || (isRequest ? input.method : ""))) {
      if (init && init.credentials) init = { ...init, credentials: "omit" };
      if (isRequest && input.credentials === "include") input = new NativeRequest(input, { credentials: "omit" });
      return fetched.call(window, input, init);
    }
    return (async () => {
      const request = new NativeRequest(isRequest ? input : new NativeURL(String(input), here), init);
      const bytes = new Uint8Array(await request.arrayBuffer());
      const address = asQuery(urlOf.call(request), request.method, request.headers.get("content-type"), bytes);
      return fetched.call(window, address, { credentials: "omit", signal: request.signal });
    })();
  });
  const sent = new WeakMap();
  const { open, send, setRequestHeader } = XMLHttpRequest.prototype;
  put(XMLHttpRequest.prototype, "open", function (method, address, ...more) {
    sent.delete(this);
    if (isRead(method)) return open.call(this, method, address, ...more);
    sent.set(this, { method: String(method), address: new NativeURL(String(address), here).href, more, type: "" });
    return open.call(this, "GET", address, ...more);
  });
  put(XMLHttpRequest.prototype, "setRequestHeader", function (name, value) {
    const facts = sent.get(this);
    if (facts && /^content-type$/i.test(name)) facts.type = String(value);
    return setRequestHeader.call(this, name, value);
  });
  put(XMLHttpRequest.prototype, "send", function (body) {
    const facts = sent.get(this);
    if (!facts) return send.call(this, body);
    const go = (type, bytes) => {
      open.call(this, "GET", asQuery(facts.address, facts.method, facts.type || type, bytes), ...facts.more);
      send.call(this);
    };
    if (body === undefined || body === null || typeof body === "string" || body instanceof URLSearchParams) {
      const type = body instanceof URLSearchParams ? "application/x-www-form-urlencoded" : "text/plain";
      return go(type, new TextEncoder().encode(body ? String(body) : ""));
    }
    const made = new Response(body instanceof Document ? new XMLSerializer().serializeToString(body) : body);
    made.arrayBuffer().then((bytes) => go(made.headers.get("content-type"), new Uint8Array(bytes)));
  });

  // Drawings take parts of other files from their own origin only, and the opaque one has none but what
  // it made itself: each file is fetched once, and used from there.
  const XLINK = "http://www.w3.org/1999/xlink";
  const { getAttribute, getAttributeNS, setAttribute, attachShadow, querySelectorAll } = Element.prototype;
  const files = new Map();
  const use = (node) => {
    const [file, part] = (getAttribute.call(node, "href") ?? getAttributeNS.call(node, XLINK, "href") ?? "").split("#");
    if (!file || !part || /^(?:blob|data):/.test(file)) return;
    const address = new URL(file, here).href;
    if (!files.has(address)) {
      files.set(address, fetched.call(window, address, { credentials: "omit" }).then(async (answer) => {
        if (!answer.ok) throw new Error(answer.status);
        return URL.createObjectURL(new Blob([await answer.blob()], { type: "image/svg+xml" }));
      }));
    }
    files.get(address).then((made) => setAttribute.call(node, "href", `${made}#${part}`), () => {});
  };
  const watch = (root) => new MutationObserver((records) => {
    for (const { target, addedNodes, type } of records) {
      if (type === "attributes" && target.localName === "use") use(target);
      for (const node of addedNodes) {
        if (node.localName === "use") use(node);
        else if (node.firstElementChild) for (const each of querySelectorAll.call(node, "use")) use(each);
      }
    }
  }).observe(root, { subtree: true, childList: true, attributeFilter: ["href", "xlink:href"] });
  watch(document);
  put(Element.prototype, "attachShadow", function (options) {
    const root = attachShadow.call(this, options);
    watch(root);
    return root;
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
