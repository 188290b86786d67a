-- The orders of a kind, flat. Argument: the kind.
return call('HGETALL', T .. 'o:' .. unpack_message(ARGV[3])[1])
