-- Make the frontier when nothing is there. Argument: what a new one is called. Answers what the one
-- that is there is called; empty when it is something else.
local kind = call('TYPE', totals).ok
if kind == 'none' then
  call('HSET', totals, 'made', unpack_message(ARGV[3]))
elseif kind ~= 'hash' then
  return ''
end
return call('HGET', totals, 'made') or ''
