-- Claims become originals, all or none; the places (from 1) of those that are lost.
-- ARGV: name, about the caller, milliseconds a heartbeat lasts, then a value for each payload.
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
local lost = {}
for i = 2, #KEYS do
  local held = redis.call('GET', KEYS[i])
  -- The value may stand there already: a settle whose answer did not arrive is sent again.
  if held ~= ARGV[i + 2] and not is_free(held) then lost[#lost + 1] = i - 1 end
end
if #lost == 0 then
  for i = 2, #KEYS do redis.call('SET', KEYS[i], ARGV[i + 2]) end
end
return lost
