importScripts("/workbox/workbox-sw.js");
workbox.setConfig({ debug: false, modulePathPrefix: "/workbox/" });
workbox.core.skipWaiting();
workbox.core.clientsClaim();
workbox.precaching.precacheAndRoute([{ url: "/data/year.js", revision: "1" }, { url: "/img/precached-300.png", revision: "2" }]);
workbox.routing.registerRoute(({ request }) => request.destination === "image", new workbox.strategies.CacheFirst({ cacheName: "images" }));
workbox.routing.registerRoute(({ url }) => url.pathname.startsWith("/data/"), new workbox.strategies.StaleWhileRevalidate());
