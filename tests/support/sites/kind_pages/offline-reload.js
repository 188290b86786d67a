// Answers navigations from its cache after the first, as application shells do.
addEventListener("install", (event) => event.waitUntil(caches.open("shell").then((cache) => cache.add("/offline-reload.html")).then(skipWaiting)));
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  if (event.request.mode === "navigate") event.respondWith(caches.match("/offline-reload.html").then((page) => page ?? fetch(event.request)));
});
