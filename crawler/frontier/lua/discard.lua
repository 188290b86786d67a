-- Skip queued items and cancel recrawls. Arguments: time, reason, concatenated identities. Returns how many.
local now, reason, ids = unpack(unpack_message(ARGV[3]))
local discarded = 0
for first = 1, #ids, 16 do
  local r = read_record(string.sub(ids, first, first + 15))
  if r and r.state < CLAIMED then
    if r.state == QUEUED then
      unqueue(r, now)
    else
      call('ZREM', T .. 'later', r.id)
      r.due = 0
    end
    finish(r, SKIPPED, now, reason, 0)
    write_record(r)
    discarded = discarded + 1
  elseif r and r.due ~= 0 then
    call('ZREM', T .. 'due', r.id)
    r.due = 0
    write_record(r)
    discarded = discarded + 1
  end
end
write_changes()
return discarded
