-- Return when a claim may succeed next; 0: now, -1: never. Argument: time.
local now = unpack_message(ARGV[3])[1]
if call('HEXISTS', totals, 'paused') == 1 then return -1 end
local earliest
for _, name in ipairs({ 'r0', 'r1', 'r2', 'h', 'later', 'due', 'leases' }) do
  local first = call('ZRANGE', T .. name, 0, 0, 'WITHSCORES')[2]
  if first then
    first = tonumber(first)
    -- The clock was set back: the next claim shortens the host's delay.
    if string.sub(name, 1, 1) == 'r' and first > now + longest_rest + slack then first = 0 end
    earliest = math.min(earliest or first, first)
  end
end
return math.floor(math.max(earliest or -1, earliest and 0 or -1))
