-- Argument: an identity. Answers its packed record; nil when it is unknown.
local r = read_record(unpack_message(ARGV[3])[1])
return r and pack_message(tell(r)) or false
