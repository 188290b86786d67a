-- Delete the caller's claims.
for i = 2, #KEYS do
  if redis.call('GET', KEYS[i]) == me then redis.call('DEL', KEYS[i]) end
end
return 0
