-- Hand out items. Arguments: moment, worker, how many at most, high_every, standard_every, how many hosts
-- of a lane may be ready before those visited last come first, claims after which an item is dead.
-- Answers, packed: whether there may be more, and the items.
local now, worker, limit, high_every, standard_every, affinity_hosts, most_claims = unpack(unpack_message(ARGV[3]))
if call('HEXISTS', totals, 'paused') == 1 then return pack_message({ false, {} }) end

-- ------------------------------------------------------------------------------------- tidying up

local function tidy(key, moment)
  return call('ZRANGEBYSCORE', key, '-inf', moment, 'LIMIT', 0, AT_ONCE)
end

-- After the clock was put back: a lease that reaches further than any process's own (and an hour for
-- other settings) is that of a worker which may be long dead, and no back-off or retry takes so long.
local function far(key, latest)
  return call('ZRANGEBYSCORE', key, '(' .. latest + margin, '+inf', 'LIMIT', 0, AT_ONCE)
end

for _, token in ipairs(far(T .. 'leases', now + lease_length)) do
  call('ZADD', T .. 'leases', now + lease_length, token)
end
for _, host in ipairs(far(T .. 'back_offs', now + longest_back_off)) do
  local slot, latest = slot_of(host), now + longest_back_off
  slot[BLOCKED] = math.min(slot[BLOCKED], latest)
  call('ZADD', T .. 'blocks', slot[BLOCKED], host)
  call('ZADD', T .. 'back_offs', slot[BLOCKED], host)
  settle(host, slot, now)
end
for _, id in ipairs(far(T .. 'later', now + longest_wait)) do
  local r = read_record(id)
  r.due = now + longest_wait
  call('ZADD', T .. 'later', r.due, id)
  write_record(r)
end

-- Queue the items whose leases ran out, or bury those to which that keeps happening. A host was last
-- asked when its worker last gave a sign of life.
for _, token in ipairs(tidy(T .. 'leases', now)) do
  local claim = held(tonumber(token))
  local r = claim.record
  local slot = free(claim, math.min(claim.renewed, now) * 1000, nil, nil, true)
  log_attempt(r.id, 'expired', 'the worker gave no sign of life', claim.worker, claim.claimed, now)
  r.attempts = r.attempts + 1
  if r.attempts >= most_claims then
    finish(r, DEAD, now, 'its workers keep vanishing', 0)
    settle(r.host, slot, now)
  else
    moved(r.job, CLAIMED, QUEUED)
    come_back(r, now)
  end
  write_record(r)
end

-- Queue what waited for its moment.
for _, id in ipairs(tidy(T .. 'later', now)) do
  call('ZREM', T .. 'later', id)
  local r = read_record(id)
  r.due = 0
  come_back(r, now)
  write_record(r)
end

-- Queue what is due again.
for _, id in ipairs(tidy(T .. 'due', now)) do
  local r = read_record(id)
  unfinish(r)
  moved(r.job, DONE, QUEUED)
  r.lane, r.number, r.added = 1, call('HINCRBY', totals, 'number', 1), now
  come_back(r, now)
  write_record(r)
end

-- Hosts whose block is over.
for _, host in ipairs(tidy(T .. 'h', now)) do
  settle(host, slot_of(host), now)
end

-- After the clock was put back: nobody rests for longer than the longest delay. Hosts that last rested
-- more than a day ago are met only when something waits for them.
local function cut(key)
  local limit = now + longest_rest + slack
  local far = call('ZRANGEBYSCORE', key, '(' .. limit, '+inf', 'LIMIT', 0, AT_ONCE)
  for _, host in ipairs(far) do
    local slot = slot_of(host)
    if slot[NEXT] > limit then rest_until(host, slot, now + longest_rest) end
    settle(host, slot, now)
  end
end

cut(T .. 'rests')
for lane = NOW, STANDARD do cut(ready_key(lane)) end
for _, key in ipairs({ T .. 'rests', T .. 'back_offs' }) do
  local past = tidy(key, now - 86400000)
  if #past > 0 then call('ZREM', key, unpack(past)) end
end

-- ---------------------------------------------------------------------------------------- claiming

local looked, items = 0, {}

local function waits_here(r, host, lane)
  return r and r.state == QUEUED and r.lane == lane and r.host == host
end

local function listed(r, host, lane)
  return waits_here(r, host, lane) and not r.strayed
end

-- The next item of a lane, taken out of its queue; nil when too many dead entries were in the way.
local function pull(host, slot, lane)
  local front, queue = front_key(host, lane), queue_key(host, lane)
  while looked < AT_ONCE do
    looked = looked + 1
    local r
    if slot[FRONT + lane] > 0 then
      local first = call('ZRANGE', front, 0, 0, 'WITHSCORES')
      if #first == 0 then broken('the front of a lane is missing') end
      local head = call('LINDEX', queue, 0)
      local other = head and read_record(head)
      if head and not listed(other, host, lane) then
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
      if not id then broken('a lane that items wait in is missing') end
      r = read_record(id)
      if not listed(r, host, lane) then r = nil end
    end
    if waits_here(r, host, lane) then return r end
  end
  return nil
end

local function take(host, slot, order)
  for _, lane in ipairs(order) do
    if call('HEXISTS', T .. 'w' .. lane, host) == 1 then
      local r = pull(host, slot, lane)
      if not r then return false end
      fewer(host, slot, lane)
      local token = call('HINCRBY', totals, 'token', 1)
      moved(r.job, QUEUED, CLAIMED)
      r.state, r.token = CLAIMED, token
      write_record(r)
      call('HSET', T .. 'claims', token, pack_message({ r.id, worker, now, now }))
      call('ZADD', T .. 'leases', now + lease_length, token)
      slot[ACTIVE] = slot[ACTIVE] + 1
      settle(host, slot, now)
      items[#items + 1] = { r.id, r.number, r.lane, r.attempts + 1, token, slot[NAME], job_name(r.job),
        r.memo, slot[DOWN] > now and slot[REASON] or '', r.body }
      return true
    end
  end
  broken('a host stands ready, but nothing waits for it')
end

local function lanes_of(token)
  if standard_every > 0 and token % standard_every == 0 then return { 2, 1, 0 } end
  if high_every > 0 and token % high_every == 0 then return { 1, 0, 2 } end
  return { 0, 1, 2 }
end

local ready = {} -- by lane: how many hosts were ready at first; 0 once no visited host is

-- The host that the claim with that token takes from: the one ready longest; while many are, the one
-- visited last (scores of new hosts are 0 or less), but for two of 17 tokens (see is_longest_turn).
local function first_ready(order, token)
  for _, lane in ipairs(order) do
    local key = ready_key(lane)
    while looked < AT_ONCE do
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
      looked = looked + 1
      settle(host, slot, now) -- no longer down, or blocked again by a clock that went back
    end
  end
end

local next_token = 1 + tonumber(call('HGET', totals, 'token') or 0)
while #items < limit and looked < AT_ONCE do
  local order = lanes_of(next_token)
  local host, slot = first_ready(order, next_token)
  if not host or not take(host, slot, order) then break end
  next_token = next_token + 1
end
write()
return pack_message({ looked >= AT_ONCE, items })
