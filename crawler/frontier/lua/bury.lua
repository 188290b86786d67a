-- End an item as skipped or dead. Arguments: six for `claim_to_end`, state, reason.
local a = unpack_message(ARGV[3])
local now_us, took_us, delay_us = unpack(a, 3, 5)
local state, reason = unpack(a, 7, 8)
local now, was_visited = math.floor(now_us / 1000), delay_us ~= 0
local claim, earlier = claim_to_end(a)
if not claim then return earlier and earlier.state == state and 1 or 0 end
local r = claim.record
local slot, took = end_claim(claim, now_us, took_us, delay_us, was_visited)
if was_visited then count_visit(r.host, slot, took, 0, 0) end
schedule_host(r.host, slot, now)
r.attempts = r.attempts + 1
if state == DEAD then log_attempt(r.id, 'fail', reason, claim.worker, claim.claimed, now) end
finish(r, state, now, reason, 0)
write_record(r)
write_changes()
return 1
