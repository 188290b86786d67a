-- Claim items. Arguments: time, worker, limit, high_every, standard_every, number of ready hosts of a lane
-- above which recently visited ones are preferred, number of claims after which an item is dead.
-- Returns in MessagePack whether there may be more, and the items.
local now, worker, limit, high_every, standard_every, affinity_hosts, most_claims = unpack(unpack_message(ARGV[3]))
if call('HEXISTS', totals, 'paused') == 1 then return pack_message({ false, {} }) end

-- ------------------------------------------------------------------------------------ maintenance

local function due_before(key, time)
  return call('ZRANGEBYSCORE', key, '-inf', time, 'LIMIT', 0, BATCH)
end

-- After the clock was set back: leases, back-offs and retries that end later than possible (plus an hour, for
-- processes with other settings) are shortened; the worker of such a lease may be dead.
local function later_than_possible(key, latest)
  return call('ZRANGEBYSCORE', key, '(' .. latest + margin, '+inf', 'LIMIT', 0, BATCH)
end

for _, token in ipairs(later_than_possible(T .. 'leases', now + lease_length)) do
  call('ZADD', T .. 'leases', now + lease_length, token)
end
for _, host in ipairs(later_than_possible(T .. 'back_offs', now + longest_back_off)) do
  local slot, latest = slot_of(host), now + longest_back_off
  slot[BLOCKED] = math.min(slot[BLOCKED], latest)
  call('ZADD', T .. 'blocks', slot[BLOCKED], host)
  call('ZADD', T .. 'back_offs', slot[BLOCKED], host)
  schedule_host(host, slot, now)
end
for _, id in ipairs(later_than_possible(T .. 'later', now + longest_wait)) do
  local r = read_record(id)
  r.due = now + longest_wait
  call('ZADD', T .. 'later', r.due, id)
  write_record(r)
end

-- Requeue items whose leases expired; end those whose leases expired repeatedly. The host's delay starts at
-- the last renewal.
for _, token in ipairs(due_before(T .. 'leases', now)) do
  local claim = find_claim(tonumber(token))
  local r = claim.record
  local slot = end_claim(claim, math.min(claim.renewed, now) * 1000, nil, nil, true)
  log_attempt(r.id, 'expired', "the worker's lease expired", claim.worker, claim.claimed, now)
  r.attempts = r.attempts + 1
  if r.attempts >= most_claims then
    finish(r, DEAD, now, 'its leases expired repeatedly', 0)
    schedule_host(r.host, slot, now)
  else
    count_move(r.job, CLAIMED, QUEUED)
    requeue(r, now)
  end
  write_record(r)
end

-- Queue items whose not-before time has come.
for _, id in ipairs(due_before(T .. 'later', now)) do
  call('ZREM', T .. 'later', id)
  local r = read_record(id)
  r.due = 0
  requeue(r, now)
  write_record(r)
end

-- Queue items that are due for a recrawl.
for _, id in ipairs(due_before(T .. 'due', now)) do
  local r = read_record(id)
  unfinish(r)
  count_move(r.job, DONE, QUEUED)
  r.lane, r.number, r.added = 1, call('HINCRBY', totals, 'number', 1), now
  requeue(r, now)
  write_record(r)
end

-- Schedule hosts whose block has ended.
for _, host in ipairs(due_before(T .. 'h', now)) do
  schedule_host(host, slot_of(host), now)
end

-- After the clock was set back: no delay exceeds the longest one. Delays that ended more than a day ago are
-- forgotten here, and shortened when an item of the host is queued.
local function shorten_delays(key)
  local limit = now + longest_rest + slack
  local far = call('ZRANGEBYSCORE', key, '(' .. limit, '+inf', 'LIMIT', 0, BATCH)
  for _, host in ipairs(far) do
    local slot = slot_of(host)
    if slot[NEXT] > limit then delay_until(host, slot, now + longest_rest) end
    schedule_host(host, slot, now)
  end
end

shorten_delays(T .. 'rests')
for lane = NOW, STANDARD do shorten_delays(ready_key(lane)) end
for _, key in ipairs({ T .. 'rests', T .. 'back_offs' }) do
  local past = due_before(key, now - 86400000)
  if #past > 0 then call('ZREM', key, unpack(past)) end
end

-- ---------------------------------------------------------------------------------------- claiming

local entries_read, items = 0, {}

local function is_queued_here(r, host, lane)
  return r and r.state == QUEUED and r.lane == lane and r.host == host
end

local function is_listed(r, host, lane)
  return is_queued_here(r, host, lane) and not r.strayed
end

-- Take the next item out of a lane; nil if too many stale entries were read.
local function pull(host, slot, lane)
  local front, queue = front_key(host, lane), queue_key(host, lane)
  while entries_read < BATCH do
    entries_read = entries_read + 1
    local r
    if slot[FRONT + lane] > 0 then
      local first = call('ZRANGE', front, 0, 0, 'WITHSCORES')
      if #first == 0 then invariant_error('the front of a lane is missing') end
      local head = call('LINDEX', queue, 0)
      local other = head and read_record(head)
      if head and not is_listed(other, host, lane) then
        call('LPOP', queue)
      elseif head and other.number < tonumber(first[2]) then
        call('LPOP', queue)
        r = other
      else
        call('ZREM', front, first[1])
        r = read_record(first[1])
        slot[FRONT + lane] = slot[FRONT + lane] - 1
      end
    else
      local id = call('LPOP', queue)
      if not id then invariant_error('a lane with queued items is missing') end
      r = read_record(id)
      if not is_listed(r, host, lane) then r = nil end
    end
    if is_queued_here(r, host, lane) then return r end
  end
  return nil
end

local function take(host, slot, order)
  for _, lane in ipairs(order) do
    if call('HEXISTS', T .. 'w' .. lane, host) == 1 then
      local r = pull(host, slot, lane)
      if not r then return false end
      decrease_queued(host, slot, lane)
      local token = call('HINCRBY', totals, 'token', 1)
      count_move(r.job, QUEUED, CLAIMED)
      r.state, r.token = CLAIMED, token
      write_record(r)
      call('HSET', T .. 'claims', token, pack_message({ r.id, worker, now, now }))
      call('ZADD', T .. 'leases', now + lease_length, token)
      slot[ACTIVE] = slot[ACTIVE] + 1
      schedule_host(host, slot, now)
      items[#items + 1] = { r.id, r.number, r.lane, r.attempts + 1, token, slot[NAME], job_name(r.job),
        r.memo, slot[DOWN] > now and slot[REASON] or '', r.body }
      return true
    end
  end
  invariant_error('a host is ready, but has no queued items')
end

local function lanes_of(token)
  if standard_every > 0 and token % standard_every == 0 then return { 2, 1, 0 } end
  if high_every > 0 and token % high_every == 0 then return { 1, 0, 2 } end
  return { 0, 1, 2 }
end

local ready = {} -- by lane: number of ready hosts at first; 0 when no visited host is ready any more

-- Return the host for the claim with that token: the one that has been ready longest; if many are ready, the
-- most recently visited one (scores of new hosts are 0 or less), except for two of 17 tokens (see
-- is_longest_turn).
local function first_ready(order, token)
  for _, lane in ipairs(order) do
    local key = ready_key(lane)
    while entries_read < BATCH do
      local host
      ready[lane] = ready[lane] or call('ZCOUNT', key, '-inf', now)
      if token % 17 % 9 > 0 and ready[lane] - #items > affinity_hosts then
        host = call('ZREVRANGEBYSCORE', key, now, '(0', 'LIMIT', 0, 1)[1]
        if not host then ready[lane] = 0 end
      end
      host = host or call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, 1)[1]
      if not host then break end
      local slot = slot_of(host)
      local latest = now + longest_back_off
      if slot[DOWN] > latest + margin then slot[DOWN] = latest end
      local over = slot[DOWN] > 0 and slot[DOWN] <= now
      if over then slot[DOWN] = 0 end
      if not over and slot[BLOCKED] <= now then return host, slot end
      entries_read = entries_read + 1
      schedule_host(host, slot, now) -- no longer down, or blocked again after the clock was set back
    end
  end
end

local next_token = 1 + tonumber(call('HGET', totals, 'token') or 0)
while #items < limit and entries_read < BATCH do
  local order = lanes_of(next_token)
  local host, slot = first_ready(order, next_token)
  if not host or not take(host, slot, order) then break end
  next_token = next_token + 1
end
write_changes()
return pack_message({ entries_read >= BATCH, items })
