// Restores the local storage of the document's origin before its first script runs. Existing values stay.
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
