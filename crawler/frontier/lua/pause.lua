-- Pause or resume claims. Argument: reason; nil to resume.
local reason = unpack_message(ARGV[3])[1]
if reason then call('HSET', totals, 'paused', reason) else call('HDEL', totals, 'paused') end
return 1
