-- Some items in a state, in no order. Arguments: state, shard (256: none left), the shard's cursor, how
-- many to look at. Answers, packed: shard, cursor, items.
local state, shard, cursor, limit = unpack(unpack_message(ARGV[3]))
local rows, looked, shards = {}, 0, 0

local function tell_here(r)
  local here = r.state == state or state == QUEUED and r.state == LATER
  if here then rows[#rows + 1] = tell(r) end
end

while shard < 256 and looked < limit and shards < AT_ONCE do
  local key = state == CLAIMED and T .. 'claims' or T .. 'i' .. string.char(shard)
  local page = call('HSCAN', key, cursor, 'COUNT', limit)
  cursor = page[1]
  for place = 1, #page[2], 2 do
    looked = looked + 1
    if state == CLAIMED then
      tell_here(held(tonumber(page[2][place])).record)
    else
      tell_here(read_raw(page[2][place], page[2][place + 1]))
    end
  end
  if cursor == '0' then
    shard, shards = state == CLAIMED and 256 or shard + 1, shards + 1
  end
end
return pack_message({ shard, cursor, rows })
