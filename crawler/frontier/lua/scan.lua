-- Iterate over items in a state, in no order. Arguments: state, shard (256: the end), the shard's cursor, number
-- of entries to read. Returns in MessagePack shard, cursor, items.
local state, shard, cursor, limit = unpack(unpack_message(ARGV[3]))
local rows, entries_read, shards = {}, 0, 0

local function add_row(r)
  local here = r.state == state or state == QUEUED and r.state == LATER
  if here then rows[#rows + 1] = describe_item(r) end
end

while shard < 256 and entries_read < limit and shards < BATCH do
  local key = state == CLAIMED and T .. 'claims' or T .. 'i' .. string.char(shard)
  local page = call('HSCAN', key, cursor, 'COUNT', limit)
  cursor = page[1]
  for index = 1, #page[2], 2 do
    entries_read = entries_read + 1
    if state == CLAIMED then
      add_row(find_claim(tonumber(page[2][index])).record)
    else
      add_row(read_raw(page[2][index], page[2][index + 1]))
    end
  end
  if cursor == '0' then
    shard, shards = state == CLAIMED and 256 or shard + 1, shards + 1
  end
end
return pack_message({ shard, cursor, rows })
