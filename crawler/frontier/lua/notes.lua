-- Notes, packed: pairs of until when (0: for ever) and value; with their keys before them when all of a
-- kind are asked for. Arguments: kind, key (nil: all).
local kind, key = unpack(unpack_message(ARGV[3]), 1, 2)
if key then return call('HGET', T .. 't:' .. kind, key) end
return call('HGETALL', T .. 't:' .. kind)
