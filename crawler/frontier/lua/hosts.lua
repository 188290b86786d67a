-- Return hosts in MessagePack. Arguments: "longest" or "slowest", limit; or nil, name. Among hosts with queues
-- of similar length (within a factor of two) only some are compared.
local order, limit = unpack(unpack_message(ARGV[3]), 1, 2)
local rows = {}
if order == 'slowest' then
  for _, host in ipairs(call('ZREVRANGE', T .. order, 0, limit - 1)) do
    rows[#rows + 1] = describe_host(host)
  end
elseif order == 'longest' then
  local seen = {}
  for _, member in ipairs(call('ZREVRANGE', T .. order, 0, math.max(limit, BATCH) - 1)) do
    local host = string.sub(member, 2)
    if not seen[host] then rows[#rows + 1] = describe_host(host) end
    seen[host] = true
  end
  table.sort(rows, function(one, other)
    return one[2] > other[2] or one[2] == other[2] and one[1] < other[1]
  end)
  for place = #rows, limit + 1, -1 do rows[place] = nil end
else
  local host = host_named(limit)
  if host then rows[1] = describe_host(host) end
end
return pack_message(rows)
