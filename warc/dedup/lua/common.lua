-- Prepended to every script. KEYS[1] is the caller's heartbeat, ARGV[1] the caller's name; the other keys are
-- payloads. A heartbeat's key ends with its owner's name and expires. All keys have the same hash tag, so that
-- any heartbeat is in the same slot of a Redis cluster.
local me = 'c' .. ARGV[1]
local heartbeats = string.sub(KEYS[1], 1, -1 - #ARGV[1])
local is_alive = {}

local function is_original(held)
  return held and string.sub(held, 1, 1) == 'o'
end

-- Return whether a payload is unclaimed, or claimed by the caller or a dead process.
local function is_free(held)
  if not held or held == me then return true end
  if is_original(held) then return false end
  local owner = string.sub(held, 2)
  if is_alive[owner] == nil then
    is_alive[owner] = redis.call('EXISTS', heartbeats .. owner) == 1
  end
  return not is_alive[owner]
end
