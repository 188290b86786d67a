-- Return the orders of a kind as a flat list. Argument: kind.
return call('HGETALL', T .. 'o:' .. unpack_message(ARGV[3])[1])
