-- Queue an item for another attempt. Arguments: six for `claim_to_end`, reason, not-before time (nil: a delay
-- that doubles), first delay, longest delay, number of failures after which an item is dead. Returns the state;
-- -1 if the claim was lost.
local a = unpack_message(ARGV[3])
local now_us, took_us, delay_us = unpack(a, 3, 5)
local reason, not_before, first_us, longest_us, most_failures = unpack(a, 7, 11)
local now, was_visited = math.floor(now_us / 1000), delay_us ~= 0
local claim, earlier = claim_to_end(a)
if not claim then
  if not earlier then return -1 end
  return earlier.state == DEAD and DEAD or earlier.state < CLAIMED and QUEUED or -1
end
local r = claim.record
local slot, took = end_claim(claim, now_us, took_us, delay_us, was_visited)
if was_visited then count_visit(r.host, slot, took, 0, 0) end
schedule_host(r.host, slot, now)
r.attempts, r.failures = r.attempts + 1, r.failures + 1
log_attempt(r.id, 'retry', reason, claim.worker, claim.claimed, now)
local state = QUEUED
if r.failures >= most_failures then
  state = DEAD
  finish(r, DEAD, now, reason, 0)
else
  local wait = math.min(first_us * 2 ^ math.min(r.failures - 1, 40), longest_us)
  r.due = not_before or math.ceil((now_us + wait) / 1000)
  count_move(r.job, CLAIMED, LATER)
  r.state = LATER
  call('ZADD', T .. 'later', r.due, r.id)
end
write_record(r)
write_changes()
return state
