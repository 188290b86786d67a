-- Return 1 if one of the payloads is no longer claimed by a living process, else 0.
for i = 2, #KEYS do
  local held = redis.call('GET', KEYS[i])
  if is_original(held) or is_free(held) then return 1 end
end
return 0
