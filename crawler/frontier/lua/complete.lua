-- Complete an item. Arguments: six for `claim_to_end`, outcome, bytes, time of the recrawl (nil: never), memo.
local a = unpack_message(ARGV[3])
local now_us, took_us, delay_us = unpack(a, 3, 5)
local outcome, stored, due, memo = unpack(a, 7, 10)
local now, was_visited = math.floor(now_us / 1000), delay_us ~= 0
local claim, earlier = claim_to_end(a)
if not claim then return earlier and earlier.state == DONE and 1 or 0 end
local r = claim.record
local slot, took = end_claim(claim, now_us, took_us, delay_us, was_visited)
if was_visited then
  count_visit(r.host, slot, took, 1, stored)
  slot[FAILURES], slot[DOWN] = 0, 0
end
schedule_host(r.host, slot, now)
r.attempts, r.memo, r.due = r.attempts + 1, memo, due or 0
if due then call('ZADD', T .. 'due', due, r.id) end
finish(r, DONE, now, outcome, stored)
count('bytes', stored)
count_job(r.job, 'bytes', stored)
write_record(r)
write_changes()
return 1
