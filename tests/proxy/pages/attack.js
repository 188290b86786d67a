// What a hostile page, frame or worker tries against a proxy that takes orders from requests.
// `from` says who tries; the answers come back by the name of the attempt.
const tell = async (asked) => {
  try {
    const answer = await asked;
    return `${answer.status} ${await answer.text()}`;
  } catch (error) {
    return String(error);
  }
};
const attempts = (from, foreign) => {
  const forged = { "WARC-Type": "resource", "Content-Type": "text/plain" };
  const meta = {
    "warc-prefix": "PAGECHOSEN",
    "dedup-bucket": "stolen",
    "dedup-buckets": { stolen: "rw" },
    limits: { "stolen/total/urls": 0 },
    stats: { buckets: ["stolen"] },
  };
  const send = (path, options) => tell(fetch(path, { cache: "no-store", ...options }));
  const tries = {
    write: send(`/forged?${from}`, {
      method: "WARCPROX_WRITE_RECORD", headers: forged, body: "forged",
    }),
    putmeta: send(`/putmeta?${from}`, {
      method: "PUTMETA", headers: { ...forged, "WARC-Type": "metadata" }, body: "forged",
    }),
    meta: send(`/meta?${from}`, { headers: { "Warcprox-Meta": JSON.stringify(meta) } }),
    optout: send(`/optout?${from}`, { headers: { "Warcprox-Meta": '{"warc-prefix": "-"}' } }),
    status: send("/status"),
  };
  for (const [number, url] of foreign.entries()) {
    tries[`foreign${number}`] = send(url, { mode: "no-cors" });
  }
  return tries;
};
const byXhr = (from) => {
  const ask = (method, path, name, value, body) =>
    new Promise((resolve) => {
      const asked = new XMLHttpRequest();
      asked.onload = () => resolve(`${asked.status} ${asked.responseText}`);
      asked.onerror = () => resolve("error");
      try {
        asked.open(method, path);
        if (name) asked.setRequestHeader(name, value);
        asked.send(body);
      } catch (error) {
        resolve(String(error));
      }
    });
  return {
    write: ask("WARCPROX_WRITE_RECORD", `/forged?${from}`, "WARC-Type", "resource", "forged"),
    putmeta: ask("PUTMETA", `/putmeta?${from}`, "WARC-Type", "metadata", "forged"),
    meta: ask("GET", `/meta?${from}`, "Warcprox-Meta", '{"warc-prefix": "PAGECHOSEN"}'),
    optout: ask("GET", `/optout?${from}`, "Warcprox-Meta", '{"warc-prefix": "-"}'),
    status: ask("GET", "/status"),
  };
};
const byWebSocket = (url, protocol) =>
  new Promise((resolve) => {
    const socket = new WebSocket(url, protocol);
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("refused");
  });
const settled = async (tries) => {
  const names = Object.keys(tries);
  const answers = await Promise.all(Object.values(tries));
  return Object.fromEntries(names.map((name, number) => [name, answers[number]]));
};

if (globalThis.document === undefined) {
  const all = (foreign) => settled(attempts(self.name || "service-worker", foreign));
  const answer = async (event) => {
    const to = event.source ?? self;
    to.postMessage(await all(event.data));
  };
  self.onmessage = (event) => (event.waitUntil ? event.waitUntil(answer(event)) : answer(event));
}
