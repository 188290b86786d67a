// What modules of a full copy import in place of the names that pywb wraps a script's block around.
const init = (name) =>
  (self._wb_wombat && self._wb_wombat.local_init && self._wb_wombat.local_init(name)) || self[name];
const given = {};
for (const name of ["window", "self", "document", "location", "top", "parent", "frames", "opener"]) given[name] = init(name);
export const { window, document, location, top, parent, frames, opener } = given;
const wrapped = given.self;
export { wrapped as self };
