-- Gives a lock or a place in its line back, and hands the lock to the next in line: others never
-- see it free while somebody waits.
-- KEYS: 1 the lock, 2 its fence, 3 its line; if one grant is given back: 4 the client's session
-- ARGV: 1 the owner; if it gives one grant back and stays in line: 2 the fence of that grant, 16
--   digits, 3 the session, 32 digits, 4 the owner's ticket, 16 digits, 5 ttl in milliseconds
-- Replies: 1 the key was the owner's; 0 it was not, or the session is not of today
-- Tells the next in line, or several who share: G, the fence, the session by which it is granted,
--   its owner, and in a last line the lock.
-- Idempotent: a second run finds nothing of this owner, or another grant.
if ARGV[2] then
  -- What an older connection gave back may be counted again by now.
  local spoken = redis.call('GET', KEYS[4])
  if not spoken or string.sub(spoken, 1, 32) ~= ARGV[3] then
    return 0
  end
end
local found = redis.pcall('GET', KEYS[1])
local is_ours = found == ARGV[1]
if is_ours then
  local record = ARGV[2] and (redis.call('GET', KEYS[2]) or '0000000000000000')
  if record and string.sub(record, 1, 16) ~= ARGV[2] then
    return 0
  end
  -- Comes first: a script that has deleted may write also if there is no memory left.
  redis.call('DEL', KEYS[1])
  if ARGV[4] then
    redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
    if redis.call('PTTL', KEYS[3]) < 2 * ARGV[5] then
      redis.call('PEXPIRE', KEYS[3], 2 * ARGV[5])
    end
  end
elseif not found or type(found) ~= 'table' then
  if ARGV[2] then
    return 0
  end
  redis.call('ZREM', KEYS[3], ARGV[1])
  if found then
    return 0
  end
elseif not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- an error is no answer, and never a refusal
end
local first = type(found) ~= 'table' and redis.call('ZPOPMIN', KEYS[3])[1]
if type(found) ~= 'table' and not first then
  return is_ours and 1 or 0
end

-- parts: order, shares, hold, fence, hand_on

local held
if type(found) == 'table' then
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
  -- Of the others some may be gone. If there are many, whoever waits looks in time.
  if left == 0 or left <= 32 and not purge(KEYS[1])[1] then
    held = nil
  end
end
hand_on(string.sub(KEYS[2], 1, -5 - #KEYS[1]), KEYS[1], KEYS[2], KEYS[3], held, nil, first)
return is_ours and 1 or 0
