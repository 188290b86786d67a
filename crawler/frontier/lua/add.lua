-- Queue new URLs. Arguments: time, age at which known URLs are queued again (nil: never), concatenated
-- identities, names of hosts, names of jobs; for each item the index of its host, its lane, the index of its
-- job, its body; number of omitted duplicates. Returns the numbers of new and of requeued items.
local a = unpack_message(ARGV[3])
local now, requeue_age, ids, names, jobs = unpack(a, 1, 5)
local host_of_item, lanes, job_of_item, bodies, equal = unpack(a, 6, 10)
local hosts = call('HMGET', T .. 'n', unpack(names))
local last = call('HINCRBY', totals, 'number', #host_of_item)
local number = last - #host_of_item
local groups, fresh_of, fresh, requeued = {}, {}, 0, 0

-- Numbers of existing jobs; a new job gets one with its first item.
local job_numbers = {}
for index, name in ipairs(jobs) do
  job_numbers[index] = tonumber(call('HGET', T .. 'jobs', name) or nil)
end

local function job_of(index)
  local job = job_numbers[index]
  if not job then
    job = call('HINCRBY', totals, 'jobs', 1)
    call('HSET', T .. 'jobs', jobs[index], job)
    call('HSET', T .. 'j' .. job, 'name', jobs[index], 'began', now)
    job_numbers[index] = job
  end
  return job
end

local function host_of(i)
  local index = host_of_item[i]
  local host = hosts[index]
  if not host then
    host = new_host(names[index],
      random_order == 1 and -random_place(string.sub(ids, 16 * i - 15, 16 * i), number + i) or 0)
    hosts[index] = host
  end
  return host
end

local function enqueue(i, id, host, lane)
  if random_order == 1 then
    local slot = slot_of(host)
    add_to_front(host, slot, lane, id, random_place(id, number + i))
    schedule_host(host, slot, now)
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
    unqueue(r, now)
    r.lane = lane
    requeue(r, now)
  else
    r.lane = lane
  end
  write_record(r)
end

local function update_known(i, id, lane)
  local r = read_record(id)
  if r.state >= DONE then
    -- An end in the future was recorded before the clock was set back.
    if requeue_age > 0 and r.ended > now - requeue_age and r.ended <= now + margin then return end
    unfinish(r)
    local job = job_of(job_of_item[i])
    count_move(r.job, r.state, nil)
    r.state, r.lane, r.job, r.number, r.added, r.body = QUEUED, lane, job, number + i, now, bodies[i]
    r.host = host_of(i)
    count_move(job, nil, QUEUED)
    write_record(r)
    if r.strayed then requeue(r, now) else enqueue(i, id, r.host, lane) end
    requeued = requeued + 1
  elseif lane < r.lane then
    move_up(r, lane)
  end
end

for i = 1, #host_of_item do
  local id, lane, body = string.sub(ids, 16 * i - 15, 16 * i), lanes[i], bodies[i]
  local shard, host, job = shard_of(id), hosts[host_of_item[i]], job_numbers[job_of_item[i]]
  if not (host and job) and call('HEXISTS', shard, id) == 0 then
    host, job = host_of(i), job_of(job_of_item[i])
  end
  if host and job and call('HSETNX', shard, id,
      pack_head(QUEUED, lane, host, number + i, now, 0, 0, 0, job, body) .. body) == 1 then
    fresh = fresh + 1
    fresh_of[job] = (fresh_of[job] or 0) + 1
    enqueue(i, id, host, lane)
  elseif requeue_age then
    update_known(i, id, lane)
  end
end

for _, group in pairs(groups) do
  local host, lane = group[1], group[2]
  call('RPUSH', queue_key(host, lane), unpack(group, 3))
  if increase_queued(host, lane, #group - 2) then schedule_host(host, slot_of(host), now) end
end
for job, number_of in pairs(fresh_of) do
  count('queued', number_of)
  count_job(job, 'queued', number_of)
end
count('duplicates', #host_of_item + equal - fresh - requeued)
write_changes()
return { fresh, requeued }
