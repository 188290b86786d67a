-- List items in a state. Arguments: state, limit, host's name (nil: all), position to continue from. Returns
-- in MessagePack the next position (-1: the end) and the items. Positions of queued items are those in the set
-- of items with a not-before time, after all lanes; those of ended items are chunks, latest first.
local state, limit, name, from = unpack(unpack_message(ARGV[3]), 1, 4)
local rows, entries_read, only = {}, 0, nil
if name then
  only = host_named(name)
  if not only then return pack_message({ -1, {} }) end
end

local function take(ids, wanted)
  local found = {}
  for _, id in ipairs(ids) do
    local r = read_record(id)
    entries_read = entries_read + 1
    if r and (not only or r.host == only) and wanted(r) then found[#found + 1] = r end
  end
  return found
end

local function push(found)
  for _, r in ipairs(found) do
    if #rows < limit then rows[#rows + 1] = describe_item(r) end
  end
end

-- Return queued items in a lane of a host, from the front and the list, each once.
local function waiting(host, lane)
  local known = {}
  local function is_here(r)
    local here = r.state == QUEUED and r.lane == lane and r.host == host and not known[r.id]
    known[r.id] = true
    return here
  end
  local found = take(call('ZRANGE', front_key(host, lane), 0, limit - 1), is_here)
  for first = 0, BATCH, 100 do
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
        if entries_read < 10 * BATCH then
          for _, r in ipairs(waiting(host, lane)) do found[#found + 1] = r end
        end
      end
    until cursor == '0' or #found >= limit or entries_read >= 10 * BATCH
    table.sort(found, function(one, other) return one.number < other.number end)
    push(found)
    if #rows >= limit then return end
  end
end

local function by_time(key, first)
  local ids = call('ZRANGE', key, first, first + BATCH - 1)
  push(take(ids, function() return true end))
  return #ids == BATCH and #rows < limit and first + BATCH or -1
end

local function claimed()
  local tokens = call('HKEYS', T .. 'claims')
  table.sort(tokens, function(one, other) return tonumber(one) < tonumber(other) end)
  for _, token in ipairs(tokens) do
    local r = find_claim(tonumber(token)).record
    if not only or r.host == only then push({ r }) end
  end
  return -1
end

local function ended()
  local place = from or tonumber(call('HGET', totals, 'place' .. state) or 0)
  local left = tonumber(call('HGET', totals, STATE_NAMES[state]) or 0)
  local chunks = 0
  while place >= 0 and #rows < limit and entries_read < BATCH and chunks < BATCH and entries_read < left do
    push(take(call('ZREVRANGE', ended_key(state, place), 0, -1), function() return true end))
    place, chunks = (math.floor(place / CHUNK) - 1) * CHUNK, chunks + 1
  end
  return #rows < limit and entries_read < left and place >= 0 and place or -1
end

local next_position = -1
if state == QUEUED then
  if not from then
    lanes()
    next_position = #rows < limit and 0 or -1
  else
    next_position = by_time(T .. 'later', from)
  end
elseif state == CLAIMED then
  next_position = claimed()
else
  next_position = ended()
end
return pack_message({ next_position, rows })
