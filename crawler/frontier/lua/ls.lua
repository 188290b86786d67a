-- Some items in a state. Arguments: state, how many at most, a host's name (nil: all), where to go on.
-- Answers, packed: where to go on (-1: nowhere), the items. Queued items go on at steps: lanes, then
-- what waits for its moment, from some place; ended ones at chunks, latest first.
local state, limit, name, from = unpack(unpack_message(ARGV[3]), 1, 4)
local rows, looked, only = {}, 0, nil
if name then
  only = host_named(name)
  if not only then return pack_message({ -1, {} }) end
end

local function take(ids, wanted)
  local found = {}
  for _, id in ipairs(ids) do
    local r = read_record(id)
    looked = looked + 1
    if r and (not only or r.host == only) and wanted(r) then found[#found + 1] = r end
  end
  return found
end

local function push(found)
  for _, r in ipairs(found) do
    if #rows < limit then rows[#rows + 1] = tell(r) end
  end
end

-- What waits in a lane of a host: from the front and from the list, each entry once.
local function waiting(host, lane)
  local known = {}
  local function is_here(r)
    local here = r.state == QUEUED and r.lane == lane and r.host == host and not known[r.id]
    known[r.id] = true
    return here
  end
  local found = take(call('ZRANGE', front_key(host, lane), 0, limit - 1), is_here)
  for first = 0, AT_ONCE, 100 do
    if #found >= 2 * limit then break end
    local ids = call('LRANGE', queue_key(host, lane), first, first + 99)
    if #ids == 0 then break end
    for _, r in ipairs(take(ids, is_here)) do found[#found + 1] = r end
  end
  return found
end

local function lanes()
  for lane = NOW, STANDARD do
    local found, cursor = {}, '0'
    repeat
      local hosts = { only }
      if not only then
        local page = call('HSCAN', T .. 'w' .. lane, cursor, 'COUNT', 100)
        cursor, hosts = page[1], {}
        for place = 1, #page[2], 2 do hosts[#hosts + 1] = page[2][place] end
      end
      for _, host in ipairs(hosts) do
        if looked < 10 * AT_ONCE then
          for _, r in ipairs(waiting(host, lane)) do found[#found + 1] = r end
        end
      end
    until cursor == '0' or #found >= limit or looked >= 10 * AT_ONCE
    table.sort(found, function(one, other) return one.number < other.number end)
    push(found)
    if #rows >= limit then return end
  end
end

local function by_moment(key, first)
  local ids = call('ZRANGE', key, first, first + AT_ONCE - 1)
  push(take(ids, function() return true end))
  return #ids == AT_ONCE and #rows < limit and first + AT_ONCE or -1
end

local function claimed()
  local tokens = call('HKEYS', T .. 'claims')
  table.sort(tokens, function(one, other) return tonumber(one) < tonumber(other) end)
  for _, token in ipairs(tokens) do
    local r = held(tonumber(token)).record
    if not only or r.host == only then push({ r }) end
  end
  return -1
end

local function ended()
  local place = from or tonumber(call('HGET', totals, 'place' .. state) or 0)
  local left = tonumber(call('HGET', totals, STATE_NAMES[state]) or 0)
  local chunks = 0
  while place >= 0 and #rows < limit and looked < AT_ONCE and chunks < AT_ONCE and looked < left do
    push(take(call('ZREVRANGE', ended_key(state, place), 0, -1), function() return true end))
    place, chunks = (math.floor(place / CHUNK) - 1) * CHUNK, chunks + 1
  end
  return #rows < limit and looked < left and place >= 0 and place or -1
end

local on = -1
if state == QUEUED then
  if not from then
    lanes()
    on = #rows < limit and 0 or -1
  else
    on = by_moment(T .. 'later', from)
  end
elseif state == CLAIMED then
  on = claimed()
else
  on = ended()
end
return pack_message({ on, rows })
