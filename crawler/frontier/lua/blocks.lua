-- Arguments: moment, how many at most. Answers packed names, moments and reasons.
local now, limit = unpack(unpack_message(ARGV[3]))
local rows = {}
for _, host in ipairs(call('ZREVRANGEBYSCORE', T .. 'blocks', '+inf', '(' .. now, 'LIMIT', 0, limit)) do
  local slot = slot_of(host)
  rows[#rows + 1] = { slot[NAME], slot[BLOCKED], slot[REASON] }
end
return pack_message(rows)
