-- Delay hosts. Arguments: time, then pairs of host and not-before time.
local a = unpack_message(ARGV[3])
for i = 2, #a, 2 do
  local host = host_named(a[i])
  if host then
    local slot = slot_of(host)
    if a[i + 1] > slot[NEXT] then delay_until(host, slot, a[i + 1]) end
    schedule_host(host, slot, a[1])
  end
end
write_changes()
return 1
