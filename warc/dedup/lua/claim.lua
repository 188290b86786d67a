-- Claim payloads; return for each its original, "y" (claimed) or "b" (busy). Renews the heartbeat.
-- ARGV: name, data about the caller, expiry of the heartbeat and of claims in milliseconds, number of keys
-- per payload: its own, then those in buckets that are only read.
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
local stride = tonumber(ARGV[5])
local answers = {}
for first = 2, #KEYS, stride do
  local own = redis.call('GET', KEYS[first])
  local answer = is_original(own) and own
  for also = first + 1, first + stride - 1 do
    if answer then break end
    local held = redis.call('GET', KEYS[also])
    answer = is_original(held) and held
  end
  if not answer then
    answer = 'b'
    if is_free(own) then
      redis.call('SET', KEYS[first], me, 'PX', ARGV[4])
      answer = 'y'
    end
  end
  answers[#answers + 1] = answer
end
return answers
