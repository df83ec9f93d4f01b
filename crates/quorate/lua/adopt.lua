-- Replaces the owner that holds the lock. If several new owners try, one of them succeeds. If a
-- writer is replaced by a reader, the readers at the head of the queue join, up to the first
-- exclusive waiter.
-- KEYS: 1 the lock; except in classic mode without quarantine: 2 its queue, 3 the client's session,
--   4 the fence of the lock
-- ARGV: 1 the old owner, 2 the new owner, 3 ttl in milliseconds, 4 the session, 32 digits
-- Replies: 1 the new owner holds the lock; 0 there is no such key; -1 the key has another value,
--   of any type; -2 the session is stale
-- Pushes: GRANTED to each reader that joins; see queue/release.lua.
if KEYS[2] then
  local session = redis.call('GET', KEYS[3])
  if not session or string.sub(session, 1, 32) ~= ARGV[4] then
    return -2
  end
  -- Where the old owner does not hold the lock it may be queued. It will not ask again.
  redis.call('ZREM', KEYS[2], ARGV[1])
end

-- parts: order, shares, put_share, fence, hand_off

local old_group, new_group = group(ARGV[1]), group(ARGV[2])
local is_downgrade = not old_group and new_group == ':s' and KEYS[2]
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
  return value -- an error is not a refusal
elseif not value then
  return 0
elseif old_group ~= new_group and not is_downgrade then
  return -1
elseif value == ARGV[1] and not old_group then
  -- First: after any write, a full server lets the script store.
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  if not new_group then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1
  end
  local fence = fence_in(redis.call('GET', KEYS[4])) or NO_FENCE
  redis.call('DEL', KEYS[1])
  put_share(KEYS[1], ARGV[2], fence, ARGV[3])
  hand_off(string.sub(KEYS[2], 1, -5 - #KEYS[1]), KEYS[1], KEYS[4], KEYS[2], new_group)
  return 1
elseif type(value) == 'table' and new_group and group_in(KEYS[1]) then
  local share = redis.call('HGET', KEYS[1], old_group and ARGV[1] or ARGV[2])
  if is_alive(share, now_ms()) and not old_group then
    lengthen_share(KEYS[1], ARGV[2], share, ARGV[3]) -- a repeated downgrade
    return 1
  elseif is_alive(share, now_ms()) then
    lengthen_key(KEYS[1], ARGV[3])
    local ends = string.format('%016.0f', now_ms() + ARGV[3])
    share = string.sub(share, 1, 16) .. ends .. string.sub(share, 33)
    redis.call('HSET', KEYS[1], ARGV[2], share)
    redis.call('HDEL', KEYS[1], ARGV[1])
    return 1
  end
end
return -1
