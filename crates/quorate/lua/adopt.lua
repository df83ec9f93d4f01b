-- Puts a new owner in the place of the one who left the lock: of several who try, one succeeds.
-- KEYS: 1 the lock; not in classic mode without a guard: 2 its line, 3 the client's session
-- ARGV: 1 the owner who left it, 2 the new owner, 3 ttl in milliseconds, 4 the session, 32 digits
-- Replies: 1 taken over; 0 there is no such key; -1 it is another's, whatever its type; -2 the
--   session is not of today
if KEYS[2] then
  local spoken = redis.call('GET', KEYS[3])
  if not spoken or string.sub(spoken, 1, 32) ~= ARGV[4] then
    return -2
  end
  -- Where it was not the holder it may stand in line, and will never come for that.
  redis.call('ZREM', KEYS[2], ARGV[1])
end

-- parts: shares, hold

local found = redis.pcall('GET', KEYS[1])
if found == ARGV[1] and not group(ARGV[1]) then
  -- A script that has written may store also if the server is full.
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
elseif not found then
  return 0
elseif type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- an error is no answer, and never a refusal
elseif type(found) == 'table' and group(ARGV[1]) and group_in(KEYS[1]) then
  local share = redis.call('HGET', KEYS[1], ARGV[1])
  if is_alive(share, now_ms()) then
    live_on(KEYS[1], ARGV[3])
    local ends = string.format('%016.0f', now_ms() + ARGV[3])
    local left = string.sub(share, 1, 16) .. ends .. string.sub(share, 33)
    redis.call('HSET', KEYS[1], ARGV[2], left)
    redis.call('HDEL', KEYS[1], ARGV[1])
    return 1
  end
end
return -1
