-- Block or unblock a host. Arguments: time, host, end of the block, reason.
local now, name, until_ms, reason = unpack(unpack_message(ARGV[3]))
local host = host_named(name) or new_host(name, 0)
local slot = slot_of(host)
if until_ms <= now then
  slot[BLOCKED], slot[DOWN], slot[FAILURES], slot[REASON] = 0, 0, 0, reason
  call('ZREM', T .. 'blocks', host)
  call('ZREM', T .. 'back_offs', host)
elseif until_ms > slot[BLOCKED] then
  slot[BLOCKED], slot[REASON] = until_ms, reason
  call('ZADD', T .. 'blocks', until_ms, host)
  call('ZREM', T .. 'back_offs', host)
end
schedule_host(host, slot, now)
write_changes()
return 1
