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

  // The archive answers as the page's service worker did at the capture, so none runs: pages find one that
  // was registered, and after a reload one that controls them.
  const events = (object, ...names) => {
    for (const name of names) {
      let handler = null;
      get(object, `on${name}`, () => handler, (value) => {
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
  get(container, "controller", () => controller);
  get(Navigator.prototype, "serviceWorker", () => container);

  // Caches last as long as the page, too.
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
  get(window, "caches", () => caches);

  for (const [object, name] of [[window, "SharedWorker"], [window, "cookieStore"], [Navigator.prototype, "locks"], [Navigator.prototype, "sendBeacon"],
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
  // Documents in data: addresses are made again with addresses of the archive.
  const frame = async (node) => {
    const address = getAttribute.call(node, "src") ?? "";
    if (!/^data:text\/html/i.test(address)) return;
    const text = await (await fetched.call(window, address)).text();
    const done = withPlaces(text);
    if (done === text) return;
    const blob = new NativeBlob([done], { type: "text/html;charset=utf-8" });
    setAttribute.call(node, "src", NativeURL.createObjectURL(blob));
  };
  const tend = (node) => { if (node.localName === "use") use(node); else if (node.localName === "iframe") frame(node); };
  const watch = (root) => new MutationObserver((records) => {
    for (const { target, addedNodes, type } of records) {
      if (type === "attributes") tend(target);
      for (const node of addedNodes) {
        tend(node);
        if (node.firstElementChild) for (const each of querySelectorAll.call(node, "use, iframe")) tend(each);
      }
    }
  }).observe(root, { subtree: true, childList: true, attributeFilter: ["href", "xlink:href", "src"] });
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
  // A script that a script makes of text imports from the archive, too.
  const NativeBlob = window.Blob;
  const imports = `${here.split("/").slice(0, 4).join("/")}/${(here.split("/")[4] || "").slice(0, 14)}esm_/`;
  const withImports = (text) => text.replace(
    /((?:^|[;\n}\s])(?:import|export)\b[\w$\s,*{}]{0,2000}?(?:from)?\s*|\bimport\s*\(\s*)(["'`])(https?:\/\/[^"'`\n]{1,2000})\2/g,
    (whole, head, quote, address) => (address.startsWith(here.split("/c/")[0]) ? whole : head + quote + imports + address + quote),
  );
  const withPlaces = (text) => text.replace(
    /(\b(?:src|href|poster|data)\s*=\s*["']?|\burl\(\s*["']?)(https?:\/\/[^\s"'<>)]{1,2000})/gi,
    (whole, head, address) => (address.startsWith(here.split("/c/")[0]) ? whole : head + imports.replace(/esm_\/$/, "mp_/") + address),
  );
  const made = function Blob(parts, options) {
    const [, kind] = /^(?:text|application)\/(javascript|html)/i.exec((options && options.type) || "") || [];
    const isText = kind && Array.isArray(parts) && parts.every((each) => typeof each === "string");
    if (isText) {
      parts = [(/html/i.test(kind) ? withPlaces : withImports)(parts.join(""))];
    }
    return Reflect.construct(NativeBlob, [parts, options], new.target || NativeBlob);
  };
  made.prototype = NativeBlob.prototype;
  put(window, "Blob", made);
  const RealWorker = window.Worker;
  if (RealWorker) {
    const started = function Worker(url, options) {
      if (/^data:/i.test(String(url))) url = NativeURL.createObjectURL(new NativeBlob([`importScripts(${JSON.stringify(String(url))})`]));
      // The real location: by now the document's base is the archived page's, and wombat has rewritten `url`.
      const isModule = options && options.type === "module";
      let address = new NativeURL(String(url), here).href;
      if (/^blob:/.test(address)) {
        if (!isModule) return new RealWorker(address, options);
        // wombat has put a line before it that a module may not have.
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
