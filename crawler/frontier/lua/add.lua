-- Queue the URLs that are new. Arguments: moment, age at which known ones are queued again (nil:
-- never), identities one after the other, names of hosts, of jobs, then for each item the number of
-- its host, its lane, the number of its job, what it says; how many equal URLs were left out. Answers how many were new, and how many were queued again.
local a = unpack_message(ARGV[3])
local now, again, ids, names, jobs = unpack(a, 1, 5)
local which, lanes, of_job, bodies, equal = unpack(a, 6, 10)
local found = call('HMGET', T .. 'n', unpack(names))
local last = call('HINCRBY', totals, 'number', #which)
local number = last - #which
local groups, fresh_of, fresh, requeued = {}, {}, 0, 0

-- The numbers of the jobs that are known; one that is new gets a number with its first item.
local job_numbers = {}
for place, name in ipairs(jobs) do
  job_numbers[place] = tonumber(call('HGET', T .. 'jobs', name) or nil)
end

local function job_of(place)
  local job = job_numbers[place]
  if not job then
    job = call('HINCRBY', totals, 'jobs', 1)
    call('HSET', T .. 'jobs', jobs[place], job)
    call('HSET', T .. 'j' .. job, 'name', jobs[place], 'began', now)
    job_numbers[place] = job
  end
  return job
end

local function host_of(i)
  local place = which[i]
  local host = found[place]
  if not host then
    host = new_host(names[place],
      random_order == 1 and -random_place(string.sub(ids, 16 * i - 15, 16 * i), number + i) or 0)
    found[place] = host
  end
  return host
end

local function enqueue(i, id, host, lane)
  if random_order == 1 then
    local slot = slot_of(host)
    to_front(host, slot, lane, id, random_place(id, number + i))
    settle(host, slot, now)
    return
  end
  local name = lane .. host
  local group = groups[name]
  if group then
    group[#group + 1] = id
  else
    groups[name] = { host, lane, id }
  end
end

local function move_up(r, lane)
  if r.state == QUEUED then
    take_out(r, now)
    r.lane = lane
    come_back(r, now)
  else
    r.lane = lane
  end
  write_record(r)
end

local function known(i, id, lane)
  local r = read_record(id)
  if r.state >= DONE then
    -- What ended in the future did so before the clock was put back.
    if again > 0 and r.ended > now - again and r.ended <= now + margin then return end
    unfinish(r)
    local job = job_of(of_job[i])
    moved(r.job, r.state, nil)
    r.state, r.lane, r.job, r.number, r.added, r.body = QUEUED, lane, job, number + i, now, bodies[i]
    r.host = host_of(i)
    moved(job, nil, QUEUED)
    write_record(r)
    if r.strayed then come_back(r, now) else enqueue(i, id, r.host, lane) end
    requeued = requeued + 1
  elseif lane < r.lane then
    move_up(r, lane)
  end
end

for i = 1, #which do
  local id, lane, body = string.sub(ids, 16 * i - 15, 16 * i), lanes[i], bodies[i]
  local shard, host, job = shard_of(id), found[which[i]], job_numbers[of_job[i]]
  if not (host and job) and call('HEXISTS', shard, id) == 0 then
    host, job = host_of(i), job_of(of_job[i])
  end
  if host and job and call('HSETNX', shard, id,
      pack_head(QUEUED, lane, host, number + i, now, 0, 0, 0, job, body) .. body) == 1 then
    fresh = fresh + 1
    fresh_of[job] = (fresh_of[job] or 0) + 1
    enqueue(i, id, host, lane)
  elseif again then
    known(i, id, lane)
  end
end

for _, group in pairs(groups) do
  local host, lane = group[1], group[2]
  call('RPUSH', queue_key(host, lane), unpack(group, 3))
  if more(host, lane, #group - 2) then settle(host, slot_of(host), now) end
end
for job, number_of in pairs(fresh_of) do
  count('queued', number_of)
  count_job(job, 'queued', number_of)
end
count('duplicates', #which + equal - fresh - requeued)
write()
return { fresh, requeued }
