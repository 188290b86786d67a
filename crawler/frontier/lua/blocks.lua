-- Return blocked hosts. Arguments: time, limit. Returns names, ends and reasons in MessagePack.
local now, limit = unpack(unpack_message(ARGV[3]))
local rows = {}
for _, host in ipairs(call('ZREVRANGEBYSCORE', T .. 'blocks', '+inf', '(' .. now, 'LIMIT', 0, limit)) do
  local slot = slot_of(host)
  rows[#rows + 1] = { slot[NAME], slot[BLOCKED], slot[REASON] }
end
return pack_message(rows)
