-- Return the records of items in MessagePack; false for unknown ones. Argument: identities.
local found = {}
for index, id in ipairs(unpack_message(ARGV[3])[1]) do
  local r = read_record(id)
  found[index] = r and describe_item(r) or false
end
return pack_message(found)
