-- Arguments: "longest" or "slowest", how many at most; or nil and a name. Answers packed reports.
-- Of hosts whose queues are about as long as each other's (a factor of two) some are compared.
local order, limit = unpack(unpack_message(ARGV[3]), 1, 2)
local rows = {}
if order == 'slowest' then
  for _, host in ipairs(call('ZREVRANGE', T .. order, 0, limit - 1)) do
    rows[#rows + 1] = report(host)
  end
elseif order == 'longest' then
  local seen = {}
  for _, member in ipairs(call('ZREVRANGE', T .. order, 0, math.max(limit, AT_ONCE) - 1)) do
    local host = string.sub(member, 2)
    if not seen[host] then rows[#rows + 1] = report(host) end
    seen[host] = true
  end
  table.sort(rows, function(one, other)
    return one[2] > other[2] or one[2] == other[2] and one[1] < other[1]
  end)
  for place = #rows, limit + 1, -1 do rows[place] = nil end
else
  local host = host_named(limit)
  if host then rows[1] = report(host) end
end
return pack_message(rows)
