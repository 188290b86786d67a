-- Put before every script. KEYS[1] is the caller's heartbeat, ARGV[1] the caller's name; the other
-- keys are payloads. A heartbeat's key ends with its owner's name and has an expiry. All keys bear
-- one hash tag, so a heartbeat that is found by its name lies in the same slot of a cluster.
local me = 'c' .. ARGV[1]
local heartbeats = string.sub(KEYS[1], 1, -1 - #ARGV[1])
local known = {}

local function is_original(held)
  return held and string.sub(held, 1, 1) == 'o'
end

-- Nobody's, the caller's, or a dead process's.
local function is_free(held)
  if not held or held == me then return true end
  if is_original(held) then return false end
  local owner = string.sub(held, 2)
  if known[owner] == nil then
    known[owner] = redis.call('EXISTS', heartbeats .. owner) == 1
  end
  return not known[owner]
end

