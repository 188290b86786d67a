-- Set originals of free payloads; return the indexes (from 1) of the others.
-- ARGV: name, concatenated names of dead processes, each as long as the caller's, a value for each payload.
for name in string.gmatch(ARGV[2], string.rep('.', #ARGV[1])) do is_alive[name] = false end
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
