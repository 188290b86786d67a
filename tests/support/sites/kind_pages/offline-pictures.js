// Precaches a picture, makes others and the list of them itself, and takes the rest from the site.
const CACHE = "pictures-v1";
const drawing = (colour) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 200"><rect width="300" height="200" fill="${colour}"/><circle cx="150" cy="100" r="70" fill="#fff"/></svg>`;
addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(["/img/cached-300.png", "/data/year.js"])));
});
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  const { pathname } = new URL(event.request.url);
  const colour = /^\/pwa\/(\w+)\.svg$/.exec(pathname)?.[1];
  if (colour) event.respondWith(new Response(drawing(colour), { headers: { "Content-Type": "image/svg+xml" } }));
  else if (pathname === "/pwa/rows.json") event.respondWith(Response.json({ rows: ["/pwa/teal.svg", "/pwa/peru.svg"] }));
  else event.respondWith(caches.match(event.request).then((known) => known ?? fetch(event.request)));
});
