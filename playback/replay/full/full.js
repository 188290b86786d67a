// Replacements for APIs that are not available to a full copy. Runs before wombat and the page's scripts.
//
// A full copy has an opaque origin, for which cookies, storage, databases and service workers throw
// exceptions that pages do not expect. The replacements keep their data in memory. This script is no
// security measure: the content security policy and the sandboxed frame are.
(function () {
  "use strict";
  const here = window.location.href;
  const defineValue = (object, name, value) => {
    try {
      Object.defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true });
    } catch (error) { /* the page has frozen the object */ }
  };
  const defineAccessor = (object, name, getter, setter) => {
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
  // Not configurable, since wombat's replacement returns the text "null" for missing values.
  for (const name of ["localStorage", "sessionStorage"]) {
    Object.defineProperty(window, name, { value: storage(), configurable: false, enumerable: true, writable: false });
  }

  const cookies = new Map();
  defineAccessor(Document.prototype, "cookie",
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

  // No service worker runs: the archive serves the responses that it gave at the capture. Pages see a
  // registered one, which controls them after a reload.
  const events = (object, ...names) => {
    for (const name of names) {
      let handler = null;
      defineAccessor(object, `on${name}`, () => handler, (value) => {
        if (handler) object.removeEventListener(name, handler);
        handler = typeof value === "function" ? value : null;
        if (handler) object.addEventListener(name, handler);
      });
    }
    return object;
  };
  const known = { waiting: null, installing: null, navigationPreload: { enable: async () => {}, disable: async () => {},
    setHeaderValue: async () => {}, getState: async () => ({ enabled: false, headerValue: "" }) } };
  const worker = events(Object.assign(new EventTarget(), { state: "activated", scriptURL: "", postMessage() {} }), "statechange", "error");
  const registration = events(Object.assign(new EventTarget(), known, {
    active: worker, scope: "", updateViaCache: "imports", update: async () => registration, unregister: async () => true,
  }), "updatefound");
  const [entry] = performance.getEntriesByType("navigation");
  let controller = entry && entry.type === "reload" ? worker : null;
  let isRegistered = controller !== null;
  let settled;
  const ready = new Promise((resolve) => { settled = () => resolve(registration); });
  if (isRegistered) settled();
  const container = events(Object.assign(new EventTarget(), {
    ready, startMessages() {},
    async register(script, options) {
      await null;
      const base = document.baseURI;
      worker.scriptURL = new URL(String(script), base).href;
      registration.scope = new URL((options && options.scope) || "./", worker.scriptURL).href;
      if (!isRegistered) {
        isRegistered = true;
        setTimeout(() => {
          settled();
          controller = worker;
          container.dispatchEvent(new Event("controllerchange"));
        }, 10);
      }
      return registration;
    },
    getRegistration: async () => (isRegistered ? registration : undefined),
    getRegistrations: async () => (isRegistered ? [registration] : []),
  }), "controllerchange", "message", "messageerror");
  defineAccessor(container, "controller", () => controller);
  defineAccessor(Navigator.prototype, "serviceWorker", () => container);

  // Caches in memory.
  const keyOf = (request) => (request instanceof Request ? request.url : new URL(String(request), document.baseURI).href);
  class MemoryCache {
    #stored = new Map();
    async match(request) { const found = this.#stored.get(keyOf(request)); return found && found.clone(); }
    async matchAll(request) { return request === undefined ? [...this.#stored.values()].map((each) => each.clone()) : [await this.match(request)].filter(Boolean); }
    async put(request, response) { this.#stored.set(keyOf(request), response.clone()); }
    async add(request) {
      const response = await window.fetch(request);
      if (!response.ok) throw new TypeError("Request failed");
      await this.put(request, response);
    }
    async addAll(requests) { await Promise.all([...requests].map((each) => this.add(each))); }
    async delete(request) { return this.#stored.delete(keyOf(request)); }
    async keys() { return [...this.#stored.keys()].map((each) => new Request(each)); }
  }
  const opened = new Map();
  const caches = {
    async open(name) { if (!opened.has(String(name))) opened.set(String(name), new MemoryCache()); return opened.get(String(name)); },
    async has(name) { return opened.has(String(name)); },
    async delete(name) { return opened.delete(String(name)); },
    async keys() { return [...opened.keys()]; },
    async match(request) {
      for (const each of opened.values()) { const found = await each.match(request); if (found) return found; }
      return undefined;
    },
  };
  defineAccessor(window, "caches", () => caches);

  for (const [object, name] of [[window, "SharedWorker"], [window, "cookieStore"], [Navigator.prototype, "locks"], [Navigator.prototype, "sendBeacon"],
    [window, "RTCPeerConnection"], [window, "webkitRTCPeerConnection"], [window, "RTCDataChannel"],
    [window, "WebTransport"]]) {
    try { delete object[name]; } catch (error) { defineValue(object, name, undefined); }
  }
  defineValue(Navigator.prototype, "sendBeacon", () => true);

  // There are no credentials, and the archive's CORS headers do not allow them.
  defineAccessor(XMLHttpRequest.prototype, "withCredentials", () => false, () => {});
  // The native classes; wombat's return the URLs of the archived pages.
  const { fetch: fetched, Request: NativeRequest, URL: NativeURL } = window;
  const { get: urlOf } = Object.getOwnPropertyDescriptor(NativeRequest.prototype, "url");
  // Requests with other methods are sent as GET with method and body in the query; the archive returns the
  // response to the same request at the capture.
  const MAX_BODY = 4000; // bytes; requests with longer bodies are matched by method only
  const isRead = (method) => /^(?:GET|HEAD|OPTIONS)$/i.test(method || "GET");
  const asQuery = (address, method, type, bytes) => {
    const body = bytes.length > MAX_BODY ? "" : `&__wb_post_data=${encodeURIComponent(btoa(String.fromCharCode(...bytes)))}`;
    const [place] = String(address).split("#");
    const query = `__wb_method=${method.toUpperCase()}&__wb_post_type=${encodeURIComponent((type || "").slice(0, 200))}${body}`;
    return `${place}${place.includes("?") ? "&" : "?"}${query}`;
  };
  defineValue(window, "fetch", function (input, init) {
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
  defineValue(XMLHttpRequest.prototype, "open", function (method, address, ...more) {
    sent.delete(this);
    if (isRead(method)) return open.call(this, method, address, ...more);
    sent.set(this, { method: String(method), address: new NativeURL(String(address), here).href, more, type: "" });
    return open.call(this, "GET", address, ...more);
  });
  defineValue(XMLHttpRequest.prototype, "setRequestHeader", function (name, value) {
    const request = sent.get(this);
    if (request && /^content-type$/i.test(name)) request.type = String(value);
    return setRequestHeader.call(this, name, value);
  });
  defineValue(XMLHttpRequest.prototype, "send", function (body) {
    const request = sent.get(this);
    if (!request) return send.call(this, body);
    const go = (type, bytes) => {
      open.call(this, "GET", asQuery(request.address, request.method, request.type || type, bytes), ...request.more);
      send.call(this);
    };
    if (body === undefined || body === null || typeof body === "string" || body instanceof URLSearchParams) {
      const type = body instanceof URLSearchParams ? "application/x-www-form-urlencoded" : "text/plain";
      return go(type, new TextEncoder().encode(body ? String(body) : ""));
    }
    const encoded = new Response(body instanceof Document ? new XMLSerializer().serializeToString(body) : body);
    encoded.arrayBuffer().then((bytes) => go(encoded.headers.get("content-type"), new Uint8Array(bytes)));
  });

  // SVG <use> loads external files from the same origin only, which for an opaque origin means blob: URLs: each
  // file is fetched once and used from its blob.
  const XLINK = "http://www.w3.org/1999/xlink";
  const { getAttribute, getAttributeNS, setAttribute, attachShadow, querySelectorAll } = Element.prototype;
  const files = new Map();
  const use = (node) => {
    const [file, part] = (getAttribute.call(node, "href") ?? getAttributeNS.call(node, XLINK, "href") ?? "").split("#");
    if (!file || !part || /^(?:blob|data):/.test(file)) return;
    const address = new URL(file, here).href;
    if (!files.has(address)) {
      files.set(address, fetched.call(window, address, { credentials: "omit" }).then(async (response) => {
        if (!response.ok) throw new Error(response.status);
        return URL.createObjectURL(new Blob([await response.blob()], { type: "image/svg+xml" }));
      }));
    }
    files.get(address).then((blobUrl) => setAttribute.call(node, "href", `${blobUrl}#${part}`), () => {});
  };
  // Documents in data: URLs are recreated with URLs of the archive.
  const frame = async (node) => {
    const address = getAttribute.call(node, "src") ?? "";
    if (!/^data:text\/html/i.test(address)) return;
    const text = await (await fetched.call(window, address)).text();
    const rewritten = withArchiveUrls(text);
    if (rewritten === text) return;
    const blob = new NativeBlob([rewritten], { type: "text/html;charset=utf-8" });
    setAttribute.call(node, "src", NativeURL.createObjectURL(blob));
  };
  const adapt = (node) => { if (node.localName === "use") use(node); else if (node.localName === "iframe") frame(node); };
  const watch = (root) => new MutationObserver((records) => {
    for (const { target, addedNodes, type } of records) {
      if (type === "attributes") adapt(target);
      for (const node of addedNodes) {
        adapt(node);
        if (node.firstElementChild) for (const each of querySelectorAll.call(node, "use, iframe")) adapt(each);
      }
    }
  }).observe(root, { subtree: true, childList: true, attributeFilter: ["href", "xlink:href", "src"] });
  watch(document);
  defineValue(Element.prototype, "attachShadow", function (options) {
    const root = attachShadow.call(this, options);
    watch(root);
    return root;
  });

  // URLs of the archive are cross-origin for an opaque origin, which can start workers only from blobs. A
  // cross-origin module cannot be a worker's script, but the script can import it; messages that arrive
  // before it has loaded are dispatched afterwards.
  const ownScript = document.currentScript && document.currentScript.src;
  const moduleStub = (address) => `self.weboidPlace = ${JSON.stringify({
      origin: here.split("/c/")[0], prefix: imports.replace(/esm_\/$/, "mp_/"),
      base: (/\/c\/\d{14}[a-z]*_?\/(https?:.*)$/.exec(/^blob:/.test(address) ? here : address) || [])[1] || here,
    })};
    importScripts(${JSON.stringify(new URL("worker.js", ownScript || here).href)});
    const early = [];
    const keep = (event) => { early.push(event); event.stopImmediatePropagation(); };
    addEventListener("message", keep);
    import(${JSON.stringify(address)}).then(() => {
      removeEventListener("message", keep);
      for (const { data, ports } of early) dispatchEvent(new MessageEvent("message", { data, ports: [...ports] }));
    }, (error) => { setTimeout(() => { throw error; }); });`;
  // Scripts created from text import from the archive, too.
  const NativeBlob = window.Blob;
  const imports = `${here.split("/").slice(0, 4).join("/")}/${(here.split("/")[4] || "").slice(0, 14)}esm_/`;
  const withImports = (text) => text.replace(
    /((?:^|[;\n}\s])(?:import|export)\b[\w$\s,*{}]{0,2000}?(?:from)?\s*|\bimport\s*\(\s*)(["'`])(https?:\/\/[^"'`\n]{1,2000})\2/g,
    (whole, head, quote, address) => (address.startsWith(here.split("/c/")[0]) ? whole : head + quote + imports + address + quote),
  );
  const withArchiveUrls = (text) => text.replace(
    /(\b(?:src|href|poster|data)\s*=\s*["']?|\burl\(\s*["']?)(https?:\/\/[^\s"'<>)]{1,2000})/gi,
    (whole, head, address) => (address.startsWith(here.split("/c/")[0]) ? whole : head + imports.replace(/esm_\/$/, "mp_/") + address),
  );
  const ReplayBlob = function Blob(parts, options) {
    const [, kind] = /^(?:text|application)\/(javascript|html)/i.exec((options && options.type) || "") || [];
    const isText = kind && Array.isArray(parts) && parts.every((each) => typeof each === "string");
    if (isText) {
      parts = [(/html/i.test(kind) ? withArchiveUrls : withImports)(parts.join(""))];
    }
    return Reflect.construct(NativeBlob, [parts, options], new.target || NativeBlob);
  };
  ReplayBlob.prototype = NativeBlob.prototype;
  defineValue(window, "Blob", ReplayBlob);
  const RealWorker = window.Worker;
  if (RealWorker) {
    const ReplayWorker = function Worker(url, options) {
      if (/^data:/i.test(String(url))) url = NativeURL.createObjectURL(new NativeBlob([`importScripts(${JSON.stringify(String(url))})`]));
      // Resolved against the replay's URL: the document's base is the archived page's, and wombat has rewritten `url`.
      const isModule = options && options.type === "module";
      let address = new NativeURL(String(url), here).href;
      if (/^blob:/.test(address)) {
        if (!isModule) return new RealWorker(address, options);
        // Remove wombat's first line, which a module cannot contain.
        const request = new XMLHttpRequest();
        open.call(request, "GET", address, false);
        send.call(request);
        const own = request.responseText.replace(/^\(function\(\) ?\{ ?self\.importScripts\(.*\}\)\(\);\n*/, "");
        address = NativeURL.createObjectURL(new NativeBlob([withImports(own)], { type: "text/javascript" }));
      }
      const text = isModule ? moduleStub(address) : `importScripts(${JSON.stringify(address)})`;
      const blob = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      return new RealWorker(blob, isModule ? { ...options, type: "classic" } : options);
    };
    ReplayWorker.prototype = RealWorker.prototype;
    defineValue(window, "Worker", ReplayWorker);
  }

  // With an opaque origin, history entries can change only the URL's fragment; keep the state and ignore other URLs.
  for (const name of ["pushState", "replaceState"]) {
    const real = History.prototype[name];
    defineValue(History.prototype, name, function (state, title, url) {
      try {
        return url === undefined || url === null ? real.call(this, state, title) : real.call(this, state, title, url);
      } catch (error) {
        if (!(error instanceof DOMException) || error.name !== "SecurityError") throw error;
        return real.call(this, state, title);
      }
    });
  }
})();
