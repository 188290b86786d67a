// IndexedDB in memory for full copies, whose opaque origin has none. Runs before full.js.
// Requests of a transaction are executed in order, each in a separate task; it completes when none is left.
(function () {
  "use strict";
  if (!window.IDBFactory || !window.IDBKeyRange) return;
  const native = window.indexedDB;
  const cmp = (one, other) => IDBFactory.prototype.cmp.call(native, one, other);
  const range = (query) => (query === undefined || query === null ? { includes: () => true }
    : query instanceof IDBKeyRange ? query : IDBKeyRange.only(query));
  const copy = (value) => structuredClone(value);
  const at = (path, value) => (Array.isArray(path) ? path.map((each) => at(each, value))
    : path === "" ? value : path.split(".").reduce((inner, name) => (inner === undefined || inner === null ? undefined : inner[name]), value));
  const isKey = (key) => { try { cmp(key, key); return true; } catch (error) { return false; } };
  const names = (of) => Object.assign([...of.keys()].sort(), { contains: (name) => of.has(name), item(number) { return this[number] ?? null; } });
  const failure = (name, text) => new DOMException(text, name);

  class Target extends EventTarget {
    constructor(...handlers) {
      super();
      for (const name of handlers) {
        let handler = null;
        Object.defineProperty(this, `on${name}`, {
          configurable: true, get: () => handler,
          set: (value) => {
            if (handler) this.removeEventListener(name, handler);
            handler = typeof value === "function" ? value : null;
            if (handler) this.addEventListener(name, handler);
          },
        });
      }
    }
  }
  class IDBRequest extends Target {
    constructor(source, transaction) {
      super("success", "error", "upgradeneeded", "blocked");
      Object.assign(this, { source, transaction, readyState: "pending", result: undefined, error: null });
    }
  }
  class IDBOpenDBRequest extends IDBRequest {}
  class IDBTransaction extends Target {
    #queue = [];
    #ended = false;
    #stores;
    constructor(db, stores, mode) {
      super("complete", "error", "abort");
      this.#stores = stores;
      Object.assign(this, { db, mode, error: null, durability: "default" });
      setTimeout(() => this.#next());
    }
    get objectStoreNames() { return names(this.#stores); }
    objectStore(name) {
      if (!this.#stores.has(String(name))) throw failure("NotFoundError", `There is no object store ${name}.`);
      return new IDBObjectStore(this.#stores.get(String(name)), this);
    }
    commit() {}
    abort() {
      this.#ended = true;
      setTimeout(() => this.dispatchEvent(new Event("abort", { bubbles: true })));
    }
    request(source, action, request = new IDBRequest(source, this)) {
      if (this.#ended) throw failure("TransactionInactiveError", "The transaction has ended.");
      request.readyState = "pending";
      this.#queue.push([request, action]);
      return request;
    }
    #next() {
      if (this.#ended) return;
      const [request, action] = this.#queue.shift() ?? [];
      if (!request) {
        this.#ended = true;
        this.dispatchEvent(new Event("complete"));
        return;
      }
      let name = "success";
      request.readyState = "done";
      try {
        request.result = action();
      } catch (error) {
        [name, request.error] = ["error", error];
      }
      const event = new Event(name, { bubbles: name === "error", cancelable: true });
      if (request.dispatchEvent(event) && name === "error") {
        this.error = request.error;
        this.abort();
      }
      setTimeout(() => this.#next());
    }
  }
  // Base class of object stores and indexes; `rows` returns [key, primary key, value] in order.
  class Source {
    #find(query) { const wanted = range(query); return this.rows().filter(([key]) => wanted.includes(key)); }
    #all(query, count, column) { return this.transaction.request(this, () => this.#find(query).slice(0, count || undefined).map((row) => copy(row[column]))); }
    #one(query, column) { return this.transaction.request(this, () => { const [row] = this.#find(query); return row && copy(row[column]); }); }
    get(query) { return this.#one(query, 2); }
    getKey(query) { return this.#one(query, 1); }
    getAll(query, count) { return this.#all(query, count, 2); }
    getAllKeys(query, count) { return this.#all(query, count, 1); }
    count(query) { return this.transaction.request(this, () => this.#find(query).length); }
    openCursor(query, direction = "next", Cursor = IDBCursorWithValue) {
      const request = new IDBRequest(this, this.transaction);
      const step = (skip) => () => {
        let rows = this.#find(query);
        if (/unique/.test(direction)) rows = rows.filter(([key], number) => !number || cmp(key, rows[number - 1][0]));
        if (/prev/.test(direction)) rows.reverse();
        const row = skip(rows, /prev/.test(direction) ? -1 : 1);
        return row ? new Cursor(this, direction, request, row, (to) => { this.transaction.request(this, step(to), request); }) : null;
      };
      return this.transaction.request(this, step((rows) => rows[0]), request);
    }
    openKeyCursor(query, direction) { return this.openCursor(query, direction, IDBCursor); }
  }
  class IDBCursor {
    #go;
    constructor(source, direction, request, [key, primaryKey], go) {
      Object.assign(this, { source, direction, request, key: copy(key), primaryKey: copy(primaryKey) });
      this.#go = go;
    }
    #after(row, sign) { return sign * (cmp(row[0], this.key) || cmp(row[1], this.primaryKey)) > 0; }
    advance(count) { this.#go((rows, sign) => rows.filter((row) => this.#after(row, sign))[count - 1]); }
    continue(to) { this.#go((rows, sign) => rows.find((row) => this.#after(row, sign) && (to === undefined || sign * cmp(row[0], to) >= 0))); }
    continuePrimaryKey(to, primary) { this.#go((rows, sign) => rows.find((row) => sign * (cmp(row[0], to) || cmp(row[1], primary)) >= 0)); }
    update(value) { const store = this.source.objectStore || this.source; return store.put(value, store.keyPath === null ? this.primaryKey : undefined); }
    delete() { return (this.source.objectStore || this.source).delete(this.primaryKey); }
  }
  class IDBCursorWithValue extends IDBCursor {
    constructor(source, direction, request, row, go) { super(source, direction, request, row, go); this.value = copy(row[2]); }
  }
  class IDBIndex extends Source {
    #data;
    constructor(data, objectStore) {
      super();
      this.#data = data;
      Object.assign(this, { objectStore, transaction: objectStore.transaction, name: data.name, keyPath: data.keyPath, unique: data.unique, multiEntry: data.multiEntry });
    }
    rows() {
      const { keyPath, multiEntry } = this.#data;
      return this.objectStore.rows().flatMap(([, primary, value]) => {
        const key = at(keyPath, value);
        return (multiEntry && Array.isArray(key) ? key : [key]).filter(isKey).map((each) => [each, primary, value]);
      }).sort((one, other) => cmp(one[0], other[0]) || cmp(one[1], other[1]));
    }
  }
  class IDBObjectStore extends Source {
    #data;
    constructor(data, transaction) {
      super();
      this.#data = data;
      Object.assign(this, { transaction, name: data.name, keyPath: data.keyPath, autoIncrement: data.autoIncrement });
    }
    get indexNames() { return names(this.#data.indexes); }
    rows() { return this.#data.rows.map(([key, value]) => [key, key, value]); }
    #write(given, key, isNew) {
      const { rows, keyPath, autoIncrement } = this.#data;
      const value = copy(given);
      if (key === undefined && keyPath !== null) key = at(keyPath, value);
      if (key === undefined && autoIncrement) {
        key = this.#data.next;
        if (typeof keyPath === "string") value[keyPath] = key;
      }
      if (!isKey(key)) throw failure("DataError", "The value has no valid key.");
      if (typeof key === "number" && key >= this.#data.next) this.#data.next = Math.floor(key) + 1;
      return this.transaction.request(this, () => {
        let low = 0;
        for (let high = rows.length; low < high;) { const middle = (low + high) >> 1; if (cmp(rows[middle][0], key) < 0) low = middle + 1; else high = middle; }
        const exists = low < rows.length && !cmp(rows[low][0], key);
        if (exists && isNew) throw failure("ConstraintError", "The key exists.");
        rows.splice(low, exists ? 1 : 0, [copy(key), value]);
        return key;
      });
    }
    put(value, key) { return this.#write(value, key, false); }
    add(value, key) { return this.#write(value, key, true); }
    delete(query) { const wanted = range(query); return this.transaction.request(this, () => { const { rows } = this.#data; rows.splice(0, rows.length, ...rows.filter(([key]) => !wanted.includes(key))); }); }
    clear() { return this.transaction.request(this, () => { this.#data.rows.length = 0; }); }
    index(name) {
      if (!this.#data.indexes.has(String(name))) throw failure("NotFoundError", `There is no index ${name}.`);
      return new IDBIndex(this.#data.indexes.get(String(name)), this);
    }
    createIndex(name, keyPath, { unique = false, multiEntry = false } = {}) {
      this.#data.indexes.set(String(name), { name: String(name), keyPath, unique, multiEntry });
      return this.index(name);
    }
    deleteIndex(name) { this.#data.indexes.delete(String(name)); }
  }
  class IDBDatabase extends Target {
    #data;
    upgrade = null;
    constructor(data) {
      super("abort", "close", "error", "versionchange");
      this.#data = data;
      this.name = data.name;
    }
    get version() { return this.#data.version; }
    get objectStoreNames() { return names(this.#data.stores); }
    createObjectStore(name, { keyPath = null, autoIncrement = false } = {}) {
      this.#data.stores.set(String(name), { name: String(name), keyPath, autoIncrement, next: 1, rows: [], indexes: new Map() });
      return this.upgrade.objectStore(name);
    }
    deleteObjectStore(name) { this.#data.stores.delete(String(name)); }
    transaction(wanted, mode = "readonly") {
      const stores = new Map();
      for (const name of typeof wanted === "string" ? [wanted] : wanted) {
        if (!this.#data.stores.has(name)) throw failure("NotFoundError", `There is no object store ${name}.`);
        stores.set(name, this.#data.stores.get(name));
      }
      return new IDBTransaction(this, stores, mode);
    }
    close() {}
  }
  const databases = new Map();
  const done = (request, result) => {
    Object.assign(request, { result, readyState: "done", transaction: null });
    request.dispatchEvent(new Event("success"));
  };
  const factory = {
    cmp,
    databases: async () => [...databases.values()].map(({ name, version }) => ({ name, version })),
    open(name, version) {
      const request = new IDBOpenDBRequest(null, null);
      setTimeout(() => {
        const data = databases.get(String(name)) ?? { name: String(name), version: 0, stores: new Map() };
        const oldVersion = data.version;
        const newVersion = version ?? (oldVersion || 1);
        if (newVersion < oldVersion) {
          request.error = failure("VersionError", "The database has a later version.");
          request.readyState = "done";
          request.dispatchEvent(new Event("error", { bubbles: true, cancelable: true }));
          return;
        }
        databases.set(data.name, data);
        const database = new IDBDatabase(data);
        if (newVersion === oldVersion) { done(request, database); return; }
        data.version = newVersion;
        database.upgrade = request.transaction = new IDBTransaction(database, data.stores, "versionchange");
        Object.assign(request, { result: database, readyState: "done" });
        request.transaction.addEventListener("complete", () => setTimeout(() => done(request, database)));
        request.dispatchEvent(new IDBVersionChangeEvent("upgradeneeded", { oldVersion, newVersion }));
      });
      return request;
    },
    deleteDatabase(name) {
      const request = new IDBOpenDBRequest(null, null);
      setTimeout(() => { databases.delete(String(name)); done(request, undefined); });
      return request;
    },
  };
  const classes = { IDBRequest, IDBOpenDBRequest, IDBTransaction, IDBObjectStore, IDBIndex, IDBCursor, IDBCursorWithValue, IDBDatabase };
  for (const [name, value] of Object.entries({ ...classes, indexedDB: factory })) {
    Object.defineProperty(window, name, { value, configurable: true, enumerable: name === "indexedDB", writable: true });
  }
})();
