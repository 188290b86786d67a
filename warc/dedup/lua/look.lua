-- 1 when one of the payloads is not a living process's claim any more, else 0.
for i = 2, #KEYS do
  local held = redis.call('GET', KEYS[i])
  if is_original(held) or is_free(held) then return 1 end
end
return 0
