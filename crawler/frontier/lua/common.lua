-- Prepended to every script. KEYS[1]: the frontier's hash of totals; all other keys start with its name,
-- so that they are in the same slot of a Redis cluster. ARGV[1]: version and identity of the frontier that
-- the caller opened, ARGV[2]: its settings, ARGV[3]: the script's arguments, both in MessagePack.
-- docs/explanation/frontier.md describes the keys.
--
-- Times are Unix milliseconds. A host's identity has four bytes, an item's has sixteen.
if redis.replicate_commands then redis.replicate_commands() end -- for Redis 6
local call, unpack_message, pack_message = redis.call, cmsgpack.unpack, cmsgpack.pack
local totals = KEYS[1]
local T = totals .. ':'
if ARGV[1] ~= '' then -- empty for open.lua
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
local BATCH = 1000 -- maximum of entries that one call reads, to limit its duration

local function invariant_error(what)
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

-- Count an item's change of state; either state may be nil.
local function count_move(job, from, to)
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

-- state and lane, host, number, added, token, attempts, failures, job, length of the body
local HEAD, HEAD_SIZE = '>Bc4I6I6I6I2I2I3I3', 33

local function shard_of(id)
  return T .. 'i' .. string.sub(id, 1, 1)
end

local function pack_head(state, lane, host, number, added, token, attempts, failures, job, body)
  return struct.pack(HEAD, state * 4 + lane, host, number, added, token,
    math.min(attempts, 65535), math.min(failures, 65535), job, #body)
end

-- Return the record of an item. `strayed` is true if an entry of the item remains in a list after it was
-- moved (see "queues"), else nil.
local function read_raw(id, raw)
  local state_and_lane, host, number, added, token, attempts, failures, job, length =
    struct.unpack(HEAD, raw)
  local lane = state_and_lane % 4
  local record = {
    id = id, state = (state_and_lane - lane) / 4, lane = lane, host = host, number = number, added = added,
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

-- Fields of a host's slot. FRONT + lane: number of entries in the lane's front (see "queues"). PLACE: 0 in
-- no set, lane + 1 ready, 4 blocked. The numbers of queued items are stored separately, by lane, so that
-- additions to a non-empty lane do not change the slot.
local NAME, REASON, NEXT, BLOCKED, DOWN, ACTIVE, FRONT = 1, 2, 3, 4, 5, 6, 7
local FAILURES, VISITED, BYTES, BUSY, MEAN, PLACE, SCORE = 10, 11, 12, 13, 14, 15, 16
local NAME_LENGTH = 17
local SLOT = '>dI6I6I4I4I4I4I4I5I6I6dBdI3' -- NEXT to NAME_LENGTH, followed by name and reason
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
  if not raw then invariant_error('an item refers to a host without a slot') end
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

-- Set the time of a host's next visit; `rests` is used to find recent delays after the clock was set back.
local function delay_until(host, slot, moment)
  slot[NEXT] = moment
  call('ZADD', T .. 'rests', moment, host)
end

-- Return the number of queued items in a lane of a host.
local function queued_in(host, lane)
  return tonumber(call('HGET', T .. 'w' .. lane, host) or 0)
end

-- Return the host's identity, or nil.
local function host_named(name)
  return call('HGET', T .. 'n', name) or nil
end

local function new_host(name, next_ms)
  local host = struct.pack('>I4', call('HINCRBY', totals, 'hosts', 1))
  call('HSET', T .. 'n', name, host)
  slots[host] = { name, '', next_ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, NOWHERE, 0, 0 }
  return host
end

-- Put the host into the set of its highest lane, scored by the time of its next visit.
local function schedule_host(host, slot, now)
  local place, score = NOWHERE, 0
  if slot[ACTIVE] < visits then
    for lane = NOW, STANDARD do
      if call('HEXISTS', T .. 'w' .. lane, host) == 1 then
        if slot[BLOCKED] > now then
          place, score = HELD, slot[BLOCKED]
        elseif slot[DOWN] > now then
          place, score = lane + 1, 0
        else
          -- In random order a new host's time is negative, less than 0 for "not blocked".
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

-- Write all slots that were read, and the counts.
local function write_changes()
  for host, slot in pairs(slots) do write_slot(host, slot) end
  write_counts()
end

-- ---------------------------------------------------------------------------------------- queues

-- A lane of a host consists of a list, to which new items are appended, and a sorted set before it, the
-- front: returned items, by number; in random order all items. The record is authoritative: an item is
-- queued where its record says, and counted once. An item that was moved leaves a stale entry in the list,
-- which is dropped when it is read or when the lane is empty; from then on the item is queued in fronts
-- only, since the stale entry would restore its old position.

-- Return the length of a number in bits: the score of hosts by queue length, since it rarely changes.
local function bits(number)
  local _, exponent = math.frexp(number)
  return exponent
end

local function update_longest(host, lane, before, after)
  local size = bits(after)
  if size ~= bits(before) then call('ZADD', T .. 'longest', size, lane .. host) end
end

-- Increase the number of queued items in a lane; return whether it was empty.
local function increase_queued(host, lane, by)
  local after = call('HINCRBY', T .. 'w' .. lane, host, by)
  update_longest(host, lane, after - by, after)
  return after == by
end

local function decrease_queued(host, slot, lane)
  local left = call('HINCRBY', T .. 'w' .. lane, host, -1)
  if left > 0 then
    update_longest(host, lane, left + 1, left)
  elseif left == 0 then
    call('HDEL', T .. 'w' .. lane, host)
    call('ZREM', T .. 'longest', lane .. host)
    call('UNLINK', queue_key(host, lane), front_key(host, lane))
    slot[FRONT + lane] = 0
  else
    invariant_error('more items were taken from a lane than were queued')
  end
end

local function add_to_front(host, slot, lane, id, score)
  increase_queued(host, lane, 1)
  slot[FRONT + lane] = slot[FRONT + lane] + call('ZADD', front_key(host, lane), score, id)
end

-- Return an item's reproducible position in random order, from 0 to less than 1.
local function random_place(id, number)
  local drawn = struct.unpack('>I4', id, 9) + number % 65536 * 2654435769
  return drawn % 2 ^ 32 / 2 ^ 32
end

-- Queue the record's item again, at its position.
local function requeue(r, now)
  local slot = slot_of(r.host)
  r.state = QUEUED
  add_to_front(r.host, slot, r.lane, r.id, random_order == 1 and random_place(r.id, r.number) or r.number)
  schedule_host(r.host, slot, now)
end

-- Remove the record's queued item from its lane.
local function unqueue(r, now)
  local slot = slot_of(r.host)
  local front = slot[FRONT + r.lane]
  if front > 0 and call('ZREM', front_key(r.host, r.lane), r.id) == 1 then
    slot[FRONT + r.lane] = front - 1
  else
    r.strayed = true
  end
  decrease_queued(r.host, slot, r.lane)
  schedule_host(r.host, slot, now)
end

-- ----------------------------------------------------------------------------------------- ended

-- Ended items of a state are numbered, and stored in sorted sets of this size, for which Redis uses compact
-- listpacks (up to 128 entries by default).
local CHUNK = 128

local function ended_key(state, place)
  return T .. 'e' .. state .. ':' .. math.floor(place / CHUNK)
end

local function log_attempt(id, ending, reason, worker, claimed, now)
  local key = T .. 'l' .. id
  call('RPUSH', key, pack_message({ ending, reason, worker, claimed, now }))
  call('LTRIM', key, -100, -1)
end

-- Count an ended item in the ring buffer of minutes.
local function count_minute(now, name, stored)
  local minute = math.floor(now / 60000)
  local raw = call('HGET', T .. 'minutes', minute % 64)
  local row = raw and unpack_message(raw)
  if not row or row[1] ~= minute then row = { minute, 0, 0, 0, 0 } end
  local column = name == DONE and 2 or name == SKIPPED and 3 or 4
  row[column], row[5] = row[column] + 1, row[5] + stored
  call('HSET', T .. 'minutes', minute % 64, pack_message(row))
end

-- End the record's item with that state.
local function finish(r, state, now, outcome, stored)
  count_move(r.job, r.state, state)
  r.place = call('HINCRBY', totals, 'place' .. state, 1)
  r.state, r.ended, r.outcome = state, now, outcome
  call('ZADD', ended_key(state, r.place), r.place, r.id)
  count_minute(now, state, stored)
end

-- Remove the record's item from the ended ones; the caller sets its new state.
local function unfinish(r)
  call('ZREM', ended_key(r.state, r.place), r.id)
  if r.due ~= 0 then call('ZREM', T .. 'due', r.id) end
  call('UNLINK', T .. 'l' .. r.id)
  r.ended, r.place, r.outcome, r.due, r.attempts, r.failures = 0, 0, '', 0, 0, 0
end

-- ---------------------------------------------------------------------------------------- claims

-- Return the claim with that token of that item: record, worker, start, last renewal; nil if it was lost.
local function find_claim(token, id)
  local raw = call('HGET', T .. 'claims', token)
  if not raw then return nil end
  local claimed_id, worker, claimed, renewed = unpack(unpack_message(raw))
  if id and claimed_id ~= id then return nil end
  local r = read_record(claimed_id)
  if not r or r.state ~= CLAIMED or r.token ~= token then invariant_error('a claim has no item') end
  return { record = r, worker = worker, claimed = claimed, renewed = renewed }
end

-- End a claim. The host's delay starts if it was visited; `delay_us` and `took_us` may be nil. Return slot and
-- duration in milliseconds.
local function end_claim(claim, now_us, took_us, delay_us, was_visited)
  local r = claim.record
  call('HDEL', T .. 'claims', r.token)
  call('ZREM', T .. 'leases', r.token)
  local slot = slot_of(r.host)
  slot[ACTIVE] = slot[ACTIVE] - 1
  if slot[ACTIVE] < 0 then invariant_error('a host has fewer claims than were ended') end
  took_us = took_us or now_us - claim.claimed * 1000
  if was_visited then
    if not delay_us then
      delay_us = math.max(took_us, 0) * delay_factor
      delay_us = math.floor(math.max(math.min(delay_us, max_delay_us), min_delay_us) + 0.5)
    end
    delay_us = math.min(delay_us, longest_rest * 1000)
    local next_visit = math.ceil((now_us + delay_us) / 1000)
    if next_visit > slot[NEXT] then delay_until(r.host, slot, next_visit) end
  end
  return slot, math.max(math.floor(took_us / 1000), 0)
end

-- Return the claim that a script ends. Its first six arguments: token, identity, time, duration of the visit,
-- delay of the host (in microseconds; nil: see `end_claim`), whether the call is repeated after a lost
-- connection. If the claim was lost, return nil, and, if the first call may have ended it (there was no later
-- claim), the record.
local function claim_to_end(a)
  local token, id, _, _, _, resent = unpack(a, 1, 6)
  local claim = find_claim(token, id)
  if claim or resent ~= 1 then return claim end
  local r = read_record(id)
  return nil, r and r.token == token and r.state ~= CLAIMED and r or nil
end

-- Count a visit to the host; `took` in milliseconds.
local function count_visit(host, slot, took, done, stored)
  slot[VISITED], slot[BYTES] = slot[VISITED] + done, slot[BYTES] + stored
  slot[BUSY] = slot[BUSY] + took
  slot[MEAN] = slot[MEAN] < 0 and took or slot[MEAN] + (took - slot[MEAN]) / 5
  call('ZADD', T .. 'slowest', slot[MEAN], host)
end

-- --------------------------------------------------------------------------------------- reports

local job_names = {}

local function job_name(job)
  local name = job_names[job] or call('HGET', T .. 'j' .. job, 'name')
  job_names[job] = name
  return name
end

-- Return all data of an item, as `redis_store.py` reads it.
local function describe_item(r)
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

-- Return all data of a host.
local function describe_host(host)
  local slot, waiting = slot_of(host), 0
  for lane = NOW, STANDARD do waiting = waiting + queued_in(host, lane) end
  return { slot[NAME], waiting, slot[ACTIVE], slot[NEXT], slot[BLOCKED], slot[DOWN],
    slot[REASON], slot[VISITED], slot[BYTES], slot[BUSY], math.max(slot[MEAN], 0), slot[FAILURES] }
end
