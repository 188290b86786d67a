// Imported by modules of a full copy; replaces the variables that pywb declares around other scripts.
const init = (name) =>
  (self._wb_wombat && self._wb_wombat.local_init && self._wb_wombat.local_init(name)) || self[name];
const values = {};
for (const name of ["window", "self", "document", "location", "top", "parent", "frames", "opener"]) values[name] = init(name);
export const { window, document, location, top, parent, frames, opener } = values;
const wrapped = values.self;
export { wrapped as self };
