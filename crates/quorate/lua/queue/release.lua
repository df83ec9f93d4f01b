-- Releases a lock, or removes a waiter from its queue, and grants the lock to the next waiter.
-- Other clients never see the lock free while a waiter is queued. With ARGV 2 it is a yield: it
-- returns one grant, and the owner stays queued.
-- KEYS: 1 the lock, 2 its fence, 3 its queue; for a yield: 4 the client's session
-- ARGV: 1 the owner; for a yield: 2 the fence of the grant, 16 digits, 3 the session, 32 digits,
--   4 the owner's ticket, 16 digits, 5 ttl in milliseconds
-- Replies: 1 the owner held the lock; 0 it did not, or the session is stale
-- Pushes: GRANTED to the next waiter, or to several that share the lock: the letter G, the fence,
--   the session for which the lock is granted, and the owner, and on a line of its own the lock.
-- Idempotent: a second run finds nothing of this owner, or another grant.
if ARGV[2] then
  -- The client may count the grant again in the meantime, in a later session.
  local session = redis.call('GET', KEYS[4])
  if not session or string.sub(session, 1, 32) ~= ARGV[3] then
    return 0
  end
end
local value = redis.pcall('GET', KEYS[1])
local is_ours = value == ARGV[1]
if is_ours then
  local record = ARGV[2] and (redis.call('GET', KEYS[2]) or '0000000000000000')
  if record and string.sub(record, 1, 16) ~= ARGV[2] then
    return 0
  end
  -- First: after any write, a full server lets the script store.
  redis.call('DEL', KEYS[1])
  if ARGV[4] then
    redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
    if redis.call('PTTL', KEYS[3]) < 2 * ARGV[5] then
      redis.call('PEXPIRE', KEYS[3], 2 * ARGV[5])
    end
  end
elseif not value or type(value) ~= 'table' then
  if ARGV[2] then
    return 0
  end
  redis.call('ZREM', KEYS[3], ARGV[1])
  if value then
    return 0
  end
elseif not string.find(value.err, 'WRONGTYPE', 1, true) then
  return value -- an error is not a refusal
end
local first = type(value) ~= 'table' and redis.call('ZPOPMIN', KEYS[3])[1]
if type(value) ~= 'table' and not first then
  return is_ours and 1 or 0
end

-- parts: order, shares, put_share, fence, hand_off

local held
if type(value) == 'table' then
  held = group_in(KEYS[1])
  if not held then
    if not ARGV[2] then
      redis.call('ZREM', KEYS[3], ARGV[1])
    end
    return 0
  end
  local share = redis.call('HGET', KEYS[1], ARGV[1])
  is_ours = is_alive(share, now_ms())
  if ARGV[2] and not (is_ours and string.sub(share, 1, 16) == ARGV[2]) then
    return 0
  end
  redis.call('HDEL', KEYS[1], ARGV[1])
  if ARGV[4] then
    redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
    if redis.call('PTTL', KEYS[3]) < 2 * ARGV[5] then
      redis.call('PEXPIRE', KEYS[3], 2 * ARGV[5])
    end
  elseif not is_ours then
    redis.call('ZREM', KEYS[3], ARGV[1])
  end
  local left = redis.call('HLEN', KEYS[1])
  -- Some of the other shares may have expired. If there are many, the next waiter removes them.
  if left == 0 or left <= 32 and not purge_shares(KEYS[1])[1] then
    held = nil
  end
end
hand_off(string.sub(KEYS[2], 1, -5 - #KEYS[1]), KEYS[1], KEYS[2], KEYS[3], held, nil, first)
return is_ours and 1 or 0
