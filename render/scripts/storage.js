// Gives a document the local storage that its origin had, before any script of the page runs.
// Values that the page has set since then stay.
(stored) => {
  "use strict";
  const items = stored[location.origin];
  if (!items) return;
  try {
    for (const key of Object.keys(items)) {
      if (localStorage.getItem(key) === null) localStorage.setItem(key, items[key]);
    }
  } catch {
    // A sandboxed document has no storage.
  }
}
