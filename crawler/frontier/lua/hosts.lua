-- Arguments: "longest" or "slowest", how many at most; or nil and a name. Answers packed reports.
local order, limit = unpack(unpack_message(ARGV[3]), 1, 2)
local rows = {}
if order then
  for _, host in ipairs(call('ZREVRANGE', T .. order, 0, limit - 1)) do
    rows[#rows + 1] = report(slot_of(host))
  end
else
  local host = host_named(limit)
  if host then rows[1] = report(slot_of(host)) end
end
return pack_message(rows)
