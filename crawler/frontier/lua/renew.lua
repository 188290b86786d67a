-- Renew a claim. Arguments: token, identity, time.
local token, id, now = unpack(unpack_message(ARGV[3]))
local claim = find_claim(token, id)
if not claim then return 0 end
local renewed = math.max(claim.renewed, now)
call('HSET', T .. 'claims', token, pack_message({ id, claim.worker, claim.claimed, renewed }))
local lease = tonumber(call('ZSCORE', T .. 'leases', token))
call('ZADD', T .. 'leases', math.max(lease, now + lease_length), token)
return 1
