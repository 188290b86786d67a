-- Return each payload's original, or "".
local found = {}
for i = 2, #KEYS do
  local held = redis.call('GET', KEYS[i])
  found[i - 1] = is_original(held) and held or ''
end
return found
