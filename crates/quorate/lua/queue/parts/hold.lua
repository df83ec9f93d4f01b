-- Lets the key live for this long at the least. Comes before any other write: a script that has
-- written may do so also if there is no memory left.
local function live_on(lock, ttl)
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), tonumber(ttl)))
end

local function put_share(lock, owner, fence, ttl)
  local now = now_ms()
  redis.call('HSET', lock, owner, fence .. string.format('%016.0f%016.0f', now + ttl, now))
  live_on(lock, ttl)
end

-- None is made to go earlier.
local function prolong_share(lock, owner, share, ttl)
  live_on(lock, ttl)
  local ends = math.max(tonumber(string.sub(share, 17, 32)), now_ms() + ttl)
  share = string.sub(share, 1, 16) .. string.format('%016.0f', ends) .. string.sub(share, 33)
  redis.call('HSET', lock, owner, share)
end
