-- Put before every script. KEYS[1]: the frontier's hash of totals; all other keys begin with its name
-- and so lie in the same slot of a cluster. ARGV[1]: which frontier the caller opened, ARGV[2]: its
-- settings, ARGV[3]: the verb's arguments, both packed. docs/frontier.md tells the keys.
--
-- Moments are whole milliseconds since 1970 UTC. A host is named by four bytes, an item by sixteen.
if redis.replicate_commands then redis.replicate_commands() end -- Redis 6 replicates scripts whole
local call, unpack_message, pack_message = redis.call, cmsgpack.unpack, cmsgpack.pack
local totals = KEYS[1]
local T = totals .. ':'
if ARGV[1] ~= '' then -- "open" asks first
  local made = call('HGET', totals, 'made')
  if made ~= ARGV[1] then return redis.error_reply('WEBOID-OTHER ' .. tostring(made)) end
end
local settings = unpack_message(ARGV[2])
local visits, delay_factor, min_delay_us, max_delay_us = unpack(settings, 1, 4)
local longest_rest, slack, lease_length, random_order = unpack(settings, 5, 8)
local margin, longest_back_off, longest_wait = unpack(settings, 9, 11)

local NOW, STANDARD = 0, 2
local QUEUED, LATER, CLAIMED, DONE, SKIPPED, DEAD = 0, 1, 2, 3, 4, 5
local STATE_NAMES = { [0] = 'queued', 'queued', 'claimed', 'done', 'skipped', 'dead' }
local AT_ONCE = 1000 -- what one call looks at or tidies up at most, so that it stays short

local function broken(what)
  error('WEBOID-BROKEN ' .. what, 0)
end

-- ---------------------------------------------------------------------------------------- counts

local counted, job_counted = {}, {}

local function count(name, by)
  counted[name] = (counted[name] or 0) + by
end

local function count_job(job, name, by)
  local changes = job_counted[job] or {}
  changes[name] = (changes[name] or 0) + by
  job_counted[job] = changes
end

-- An item of a job goes from one state to another; either may be nil.
local function moved(job, from, to)
  local old, new = STATE_NAMES[from], STATE_NAMES[to]
  if old == new then return end
  if old then count(old, -1) count_job(job, old, -1) end
  if new then count(new, 1) count_job(job, new, 1) end
end

local function write_counts()
  for name, by in pairs(counted) do
    if by ~= 0 then call('HINCRBY', totals, name, by) end
  end
  for job, changes in pairs(job_counted) do
    for name, by in pairs(changes) do
      if by ~= 0 then call('HINCRBY', T .. 'j' .. job, name, by) end
    end
  end
end

-- --------------------------------------------------------------------------------------- records

-- state and lane, host, number, added, token, attempts, failures, job, length of what `add` was told
local HEAD, HEAD_SIZE = '>Bc4I6I6I6I2I2I3I3', 33

local function shard_of(id)
  return T .. 'i' .. string.sub(id, 1, 1)
end

local function pack_head(state, lane, host, number, added, token, attempts, failures, job, body)
  return struct.pack(HEAD, state * 4 + lane, host, number, added, token,
    math.min(attempts, 65535), math.min(failures, 65535), job, #body)
end

-- The record of an item, nil when there is none. `ended`, `place`, `outcome`, `memo`, `due` have
-- their defaults until something is known; `strayed` is true when it once
-- left an entry of a list behind (see below), else nil.
local function read_raw(id, raw)
  local mark, host, number, added, token, attempts, failures, job, length =
    struct.unpack(HEAD, raw)
  local lane = mark % 4
  local record = {
    id = id, state = (mark - lane) / 4, lane = lane, host = host, number = number, added = added,
    token = token, attempts = attempts, failures = failures, job = job,
    body = string.sub(raw, HEAD_SIZE + 1, HEAD_SIZE + length),
    ended = 0, place = 0, outcome = '', memo = '', due = 0,
  }
  if #raw > HEAD_SIZE + length then
    record.ended, record.place, record.outcome, record.memo, record.due, record.strayed =
      unpack(unpack_message(string.sub(raw, HEAD_SIZE + length + 1)), 1, 6)
  end
  return record
end

local function read_record(id)
  local raw = call('HGET', shard_of(id), id)
  return raw and read_raw(id, raw) or nil
end

local function write_record(r)
  local raw = pack_head(r.state, r.lane, r.host, r.number, r.added, r.token, r.attempts,
    r.failures, r.job, r.body) .. r.body
  if r.ended ~= 0 or r.due ~= 0 or r.memo ~= '' or r.strayed then
    raw = raw .. pack_message({ r.ended, r.place, r.outcome, r.memo, r.due, r.strayed })
  end
  call('HSET', shard_of(r.id), r.id, raw)
end

-- ----------------------------------------------------------------------------------------- hosts

-- The fields of a slot as a table. FRONT has one for each lane: how many entries its front (see below)
-- has. PLACE: 0 nowhere, lane + 1 ready, 4 held back by a block. How much waits is kept apart, by lane,
-- so that an addition to a lane that is not empty leaves the slot alone.
local NAME, REASON, NEXT, BLOCKED, DOWN, ACTIVE, FRONT = 1, 2, 3, 4, 5, 6, 7
local FAILURES, VISITED, BYTES, BUSY, MEAN, PLACE, SCORE = 10, 11, 12, 13, 14, 15, 16
local NAME_LENGTH = 17
local SLOT = '>dI6I6I4I4I4I4I4I5I6I6dBdI3' -- the fields from NEXT to NAME_LENGTH; name and reason follow
local SLOT_SIZE = struct.size(SLOT)
local NOWHERE, HELD = 0, 4
local slots = {}

local function ready_key(lane) return T .. 'r' .. lane end
local function front_key(host, lane) return T .. 'f' .. lane .. host end
local function queue_key(host, lane) return T .. 'q' .. lane .. host end
local function place_key(place) return place == HELD and T .. 'h' or ready_key(place - 1) end

local function slot_of(host)
  local slot = slots[host]
  if slot then return slot end
  local raw = call('HGET', T .. 's', host)
  if not raw then broken('an item names a host that has no slot') end
  slot = { '', '', struct.unpack(SLOT, raw) }
  local reason = SLOT_SIZE + slot[NAME_LENGTH] + 1
  slot[NAME], slot[REASON] = string.sub(raw, SLOT_SIZE + 1, reason - 1), string.sub(raw, reason)
  slots[host] = slot
  return slot
end

local function write_slot(host, slot)
  slot[NAME_LENGTH] = #slot[NAME]
  call('HSET', T .. 's', host,
    struct.pack(SLOT, unpack(slot, NEXT, NAME_LENGTH)) .. slot[NAME] .. slot[REASON])
end

-- Let a host rest until then; hosts that rested lately are found by it when the clock is put back.
local function rest_until(host, slot, moment)
  slot[NEXT] = moment
  call('ZADD', T .. 'rests', moment, host)
end

-- How much waits in a lane of a host; 0 or more.
local function waiting_in(host, lane)
  return tonumber(call('HGET', T .. 'w' .. lane, host) or 0)
end

-- The host's four bytes, nil when it has no slot.
local function host_named(name)
  return call('HGET', T .. 'n', name) or nil
end

local function new_host(name, next_ms)
  local host = struct.pack('>I4', call('HINCRBY', totals, 'hosts', 1))
  call('HSET', T .. 'n', name, host)
  slots[host] = { name, '', next_ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, NOWHERE, 0, 0 }
  return host
end

-- Let the host stand where it belongs: by its highest lane, from the moment when it may be asked.
local function settle(host, slot, now)
  local place, score = NOWHERE, 0
  if slot[ACTIVE] < visits then
    for lane = NOW, STANDARD do
      if call('HEXISTS', T .. 'w' .. lane, host) == 1 then
        if slot[BLOCKED] > now then
          place, score = HELD, slot[BLOCKED]
        elseif slot[DOWN] > now then
          place, score = lane + 1, 0
        else
          -- In random order a new host's moment is below zero, which is "not blocked" otherwise.
          place, score = lane + 1, slot[NEXT]
          if slot[BLOCKED] > 0 then score = math.max(score, slot[BLOCKED]) end
        end
        break
      end
    end
  end
  local old = slot[PLACE]
  if place == old and score == slot[SCORE] then return end
  if old ~= NOWHERE and old ~= place then call('ZREM', place_key(old), host) end
  if place ~= NOWHERE then call('ZADD', place_key(place), score, host) end
  slot[PLACE], slot[SCORE] = place, score
end

-- Write all slots that were looked at, and the counts.
local function write()
  for host, slot in pairs(slots) do write_slot(host, slot) end
  write_counts()
end

-- ---------------------------------------------------------------------------------------- queues

-- A host's lane is a list, to whose end new items go, and a sorted set before it, the front: items
-- that came back, by number; in random order all items. Entries are hints; the record decides: an
-- item waits where its record says, and is counted once. What moved away leaves
-- its entry in the list behind, which is dropped when it is met or when nothing waits any more; the
-- item waits in fronts from then on, or the entry would give it back the place that it had.

-- The length of a number in bits: what hosts with long queues are found by, since it changes seldom.
local function bits(number)
  local _, exponent = math.frexp(number)
  return exponent
end

local function resized(host, lane, before, after)
  local size = bits(after)
  if size ~= bits(before) then call('ZADD', T .. 'longest', size, lane .. host) end
end

-- So many more wait in a lane; whether it was empty.
local function more(host, lane, by)
  local after = call('HINCRBY', T .. 'w' .. lane, host, by)
  resized(host, lane, after - by, after)
  return after == by
end

local function fewer(host, slot, lane)
  local left = call('HINCRBY', T .. 'w' .. lane, host, -1)
  if left > 0 then
    resized(host, lane, left + 1, left)
  elseif left == 0 then
    call('HDEL', T .. 'w' .. lane, host)
    call('ZREM', T .. 'longest', lane .. host)
    call('UNLINK', queue_key(host, lane), front_key(host, lane))
    slot[FRONT + lane] = 0
  else
    broken('a lane gave more items than waited in it')
  end
end

local function to_front(host, slot, lane, id, score)
  more(host, lane, 1)
  slot[FRONT + lane] = slot[FRONT + lane] + call('ZADD', front_key(host, lane), score, id)
end

-- Where an item stands in random order, from 0 on, less than 1: the same as often as it is asked for.
local function random_place(id, number)
  local drawn = struct.unpack('>I4', id, 9) + number % 65536 * 2654435769
  return drawn % 2 ^ 32 / 2 ^ 32
end

-- Let the record's item wait in its place again.
local function come_back(r, now)
  local slot = slot_of(r.host)
  r.state = QUEUED
  to_front(r.host, slot, r.lane, r.id, random_order == 1 and random_place(r.id, r.number) or r.number)
  settle(r.host, slot, now)
end

-- Take the record's item, which waits, out of its lane.
local function take_out(r, now)
  local slot = slot_of(r.host)
  local front = slot[FRONT + r.lane]
  if front > 0 and call('ZREM', front_key(r.host, r.lane), r.id) == 1 then
    slot[FRONT + r.lane] = front - 1
  else
    r.strayed = true
  end
  fewer(r.host, slot, r.lane)
  settle(r.host, slot, now)
end

-- ----------------------------------------------------------------------------------------- ended

-- Ended items of a state are numbered, and kept in sorted sets of so many, which Redis packs tightly
-- (listpacks, up to 128 by default).
local CHUNK = 128

local function ended_key(state, place)
  return T .. 'e' .. state .. ':' .. math.floor(place / CHUNK)
end

local function log_attempt(id, ending, reason, worker, claimed, now)
  local key = T .. 'l' .. id
  call('RPUSH', key, pack_message({ ending, reason, worker, claimed, now }))
  call('LTRIM', key, -100, -1)
end

-- What ended lately, in a ring of minutes.
local function count_minute(now, name, stored)
  local minute = math.floor(now / 60000)
  local raw = call('HGET', T .. 'minutes', minute % 64)
  local row = raw and unpack_message(raw)
  if not row or row[1] ~= minute then row = { minute, 0, 0, 0, 0 } end
  local column = name == DONE and 2 or name == SKIPPED and 3 or 4
  row[column], row[5] = row[column] + 1, row[5] + stored
  call('HSET', T .. 'minutes', minute % 64, pack_message(row))
end

-- The record's item ends in that state.
local function finish(r, state, now, outcome, stored)
  moved(r.job, r.state, state)
  r.place = call('HINCRBY', totals, 'place' .. state, 1)
  r.state, r.ended, r.outcome = state, now, outcome
  call('ZADD', ended_key(state, r.place), r.place, r.id)
  count_minute(now, state, stored)
end

-- The record's item, which had ended, has not any more; the caller writes what it is now.
local function unfinish(r)
  call('ZREM', ended_key(r.state, r.place), r.id)
  if r.due ~= 0 then call('ZREM', T .. 'due', r.id) end
  call('UNLINK', T .. 'l' .. r.id)
  r.ended, r.place, r.outcome, r.due, r.attempts, r.failures = 0, 0, '', 0, 0, 0
end

-- ---------------------------------------------------------------------------------------- claims

-- The claim with that token of that item: its record, worker, beginning, last sign of life. nil when
-- it is lost.
local function held(token, id)
  local raw = call('HGET', T .. 'claims', token)
  if not raw then return nil end
  local claimed_id, worker, claimed, renewed = unpack(unpack_message(raw))
  if id and claimed_id ~= id then return nil end
  local r = read_record(claimed_id)
  if not r or r.state ~= CLAIMED or r.token ~= token then broken('a claim has no item') end
  return { record = r, worker = worker, claimed = claimed, renewed = renewed }
end

-- End a claim. The host rests, unless `asked` is false; `delay_us` and `took_us` may be nil.
local function free(claim, now_us, took_us, delay_us, asked)
  local r = claim.record
  call('HDEL', T .. 'claims', r.token)
  call('ZREM', T .. 'leases', r.token)
  local slot = slot_of(r.host)
  slot[ACTIVE] = slot[ACTIVE] - 1
  if slot[ACTIVE] < 0 then broken('a host was freed more often than taken') end
  took_us = took_us or now_us - claim.claimed * 1000
  if asked then
    if not delay_us then
      delay_us = math.max(took_us, 0) * delay_factor
      delay_us = math.floor(math.max(math.min(delay_us, max_delay_us), min_delay_us) + 0.5)
    end
    delay_us = math.min(delay_us, longest_rest * 1000)
    local rested = math.ceil((now_us + delay_us) / 1000)
    if rested > slot[NEXT] then rest_until(r.host, slot, rested) end
  end
  return slot, math.max(math.floor(took_us / 1000), 0)
end

-- The claim that a verb ends, from its first six arguments: token, identity, moment and how long the
-- visit took and the host shall rest (all in microseconds; nil: see `free`), whether the call is sent
-- a second time. nil when it is lost; then also whether an earlier sending of the same call may have
-- ended it: the record, when no other claim came after.
local function claim_to_end(a)
  local token, id, _, _, _, resent = unpack(a, 1, 6)
  local claim = held(token, id)
  if claim or resent ~= 1 then return claim end
  local r = read_record(id)
  return nil, r and r.token == token and r.state ~= CLAIMED and r or nil
end

-- Count a visit to the host that took so many milliseconds.
local function visited(host, slot, took, done, stored)
  slot[VISITED], slot[BYTES] = slot[VISITED] + done, slot[BYTES] + stored
  slot[BUSY] = slot[BUSY] + took
  slot[MEAN] = slot[MEAN] < 0 and took or slot[MEAN] + (took - slot[MEAN]) / 5
  call('ZADD', T .. 'slowest', slot[MEAN], host)
end

-- ---------------------------------------------------------------------------------------- telling

local told_names = {}

local function job_name(job)
  local name = told_names[job] or call('HGET', T .. 'j' .. job, 'name')
  told_names[job] = name
  return name
end

-- All that the books say of an item, as `packing.py` reads it.
local function tell(r)
  local worker, claimed, lease = '', 0, 0
  if r.state == CLAIMED then
    local claim = unpack_message(call('HGET', T .. 'claims', r.token))
    worker, claimed = claim[2], claim[3]
    lease = tonumber(call('ZSCORE', T .. 'leases', r.token))
  end
  local slot = slot_of(r.host)
  return { r.id, r.number, r.lane, r.attempts + (r.state == CLAIMED and 1 or 0),
    r.state == CLAIMED and r.token or 0, slot[NAME], job_name(r.job), r.memo, '', r.body,
    r.state, r.added, r.ended, r.outcome, r.due, worker, claimed, lease,
    call('LRANGE', T .. 'l' .. r.id, 0, -1) }
end

-- All that is known of a host.
local function report(host)
  local slot, waiting = slot_of(host), 0
  for lane = NOW, STANDARD do waiting = waiting + waiting_in(host, lane) end
  return { slot[NAME], waiting, slot[ACTIVE], slot[NEXT], slot[BLOCKED], slot[DOWN],
    slot[REASON], slot[VISITED], slot[BYTES], slot[BUSY], math.max(slot[MEAN], 0), slot[FAILURES] }
end
