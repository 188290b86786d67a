-- Originals for payloads that are free; the places (from 1) of those that were not.
-- ARGV: name, names of the dead in a row, each as long as the caller's, then a value for each payload.
for name in string.gmatch(ARGV[2], string.rep('.', #ARGV[1])) do known[name] = false end
local kept = {}
for i = 2, #KEYS do
  local held = redis.call('GET', KEYS[i])
  if is_free(held) then
    redis.call('SET', KEYS[i], ARGV[i + 1])
  elseif held ~= ARGV[i + 1] then
    kept[#kept + 1] = i - 1
  end
end
return kept
