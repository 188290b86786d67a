-- Arguments: moment, then pairs of a host's name and a moment before which it is not asked.
local a = unpack_message(ARGV[3])
for i = 2, #a, 2 do
  local host = host_named(a[i])
  if host then
    local slot = slot_of(host)
    if a[i + 1] > slot[NEXT] then rest_until(host, slot, a[i + 1]) end
    settle(host, slot, a[1])
  end
end
write()
return 1
