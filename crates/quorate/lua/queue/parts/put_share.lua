-- Keeps the key for at least another ttl. This is the first write: after it, a full server lets the
-- script store.
local function lengthen_key(lock, ttl)
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), tonumber(ttl)))
end

local function put_share(lock, owner, fence, ttl)
  local now = now_ms()
  redis.call('HSET', lock, owner, fence .. string.format('%016.0f%016.0f', now + ttl, now))
  lengthen_key(lock, ttl)
end

-- Keeps a share for another ttl. It never expires earlier than before.
local function lengthen_share(lock, owner, share, ttl)
  lengthen_key(lock, ttl)
  local ends = math.max(tonumber(string.sub(share, 17, 32)), now_ms() + ttl)
  share = string.sub(share, 1, 16) .. string.format('%016.0f', ends) .. string.sub(share, 33)
  redis.call('HSET', lock, owner, share)
end
