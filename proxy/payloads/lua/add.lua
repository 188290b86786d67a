-- Originals for payloads that are free; the places (from 1) of those that were not.
-- ARGV: name, then a value for each payload.
local kept = {}
for i = 2, #KEYS do
  local held = redis.call('GET', KEYS[i])
  if is_free(held) then
    redis.call('SET', KEYS[i], ARGV[i])
  elseif held ~= ARGV[i] then
    kept[#kept + 1] = i - 1
  end
end
return kept
