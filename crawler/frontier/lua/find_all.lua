-- Argument: identities. Answers, packed: their records in that order; false for one that is unknown.
local found = {}
for place, id in ipairs(unpack_message(ARGV[3])[1]) do
  local r = read_record(id)
  found[place] = r and tell(r) or false
end
return pack_message(found)
