-- Block a host after a failure. Arguments: time in microseconds, host, reason, time of Retry-After (0: none),
-- whether it was unreachable; duration of the first block, maximum duration, number of failures after which
-- it is down, duration of that. Returns the end of the block or of being down.
local now_us, name, reason, at_least, down, first_us, limit_us, most, down_us =
  unpack(unpack_message(ARGV[3]))
local now = math.floor(now_us / 1000)
local host = host_named(name) or new_host(name, 0)
local slot = slot_of(host)
slot[FAILURES], slot[REASON] = slot[FAILURES] + 1, reason
local until_ms
if down and slot[FAILURES] >= most then
  slot[DOWN] = math.max(slot[DOWN], math.ceil((now_us + down_us) / 1000), at_least)
  slot[BLOCKED] = 0
  until_ms = slot[DOWN]
  call('ZREM', T .. 'blocks', host)
  call('ZREM', T .. 'back_offs', host)
else
  local wait = math.min(first_us * 2 ^ math.min(slot[FAILURES] - 1, 40), limit_us)
  until_ms = math.max(slot[BLOCKED], math.ceil((now_us + wait) / 1000), at_least)
  if until_ms > slot[BLOCKED] then call('ZADD', T .. 'back_offs', until_ms, host) end
  slot[BLOCKED], slot[DOWN] = until_ms, 0
  call('ZADD', T .. 'blocks', until_ms, host)
end
schedule_host(host, slot, now)
write_changes()
return until_ms
