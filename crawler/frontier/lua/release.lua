-- Return an item to the queue. Arguments: six for `claim_to_end`, reason, not-before time (nil: none).
local a = unpack_message(ARGV[3])
local now_us, reason, not_before = a[3], a[7], a[8]
local now = math.floor(now_us / 1000)
local claim, earlier = claim_to_end(a)
if not claim then return earlier and earlier.state < CLAIMED and 1 or 0 end
local r = claim.record
local slot = end_claim(claim, now_us, nil, nil, false)
schedule_host(r.host, slot, now)
if reason ~= '' then log_attempt(r.id, 'release', reason, claim.worker, claim.claimed, now) end
count_move(r.job, CLAIMED, QUEUED)
if not_before then
  r.state, r.due = LATER, not_before
  call('ZADD', T .. 'later', not_before, r.id)
else
  requeue(r, now)
end
write_record(r)
write_changes()
return 1
