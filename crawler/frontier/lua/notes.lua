-- Return a note, or all notes of a kind with their keys: MessagePack pairs of expiry (0: never) and value.
-- Arguments: kind, key (nil: all).
local kind, key = unpack(unpack_message(ARGV[3]), 1, 2)
if key then return call('HGET', T .. 't:' .. kind, key) end
return call('HGETALL', T .. 't:' .. kind)
