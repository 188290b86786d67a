addEventListener("install", (event) => event.waitUntil(caches.open("a").then((cache) => cache.addAll(["/silent"]))));
addEventListener("fetch", (event) => event.respondWith(new Promise(() => {})));
