// What it answers is in the name of what is asked for; all else is left to the network.
const made = (text) => new Response(text, { headers: { "Content-Type": "text/plain" } });
const answers = {
  "made.txt": () => made("Made by the worker."),
  "bytes.bin": () => new Response(new Uint8Array([65, 0, 255]), { headers: { "Content-Type": "image/png" } }),
  "made.html": () => new Response("<title>Made</title><p>A page made by the worker.", { headers: { "Content-Type": "text/html" } }),
  "refused.txt": () => new Response("no", { status: 404 }),
  "large.txt": () => made("x".repeat(8_000_000)),
  "never.txt": () => new Promise(() => {}),
  "passed.txt": (request) => fetch(request),
};
addEventListener("install", (event) => event.waitUntil((async () => {
  const cache = await caches.open("a");
  await cache.addAll(["cached.txt"]);
  await cache.put("put.txt", made("Put into the cache."));
  await skipWaiting();
})()));
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  const name = new URL(event.request.url).pathname.split("/").at(-1);
  if (name in answers) event.respondWith(answers[name](event.request));
  else event.respondWith(caches.match(event.request).then((found) => found || fetch(event.request)));
});
