-- Create the frontier unless it exists. Argument: version and identity of a new one. Returns those of the
-- existing one; '' if the key has another type.
local kind = call('TYPE', totals).ok
if kind == 'none' then
  call('HSET', totals, 'made', unpack_message(ARGV[3]))
elseif kind ~= 'hash' then
  return ''
end
return call('HGET', totals, 'made') or ''
