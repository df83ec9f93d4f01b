-- Puts a new owner in the place of the one who left the lock: of several who try, one succeeds. If
-- the new one shares the lock and the old one had it alone, those at the head of the line who share
-- it come in as well, up to the first who wants it alone.
-- KEYS: 1 the lock; not in classic mode without a guard: 2 its line, 3 the client's session, 4 the
--   fence of the lock
-- ARGV: 1 the owner who left it, 2 the new owner, 3 ttl in milliseconds, 4 the session, 32 digits
-- Replies: 1 taken over; 0 there is no such key; -1 it is another's, whatever its type; -2 the
--   session is not of today
-- Tells those who come in: G, as line/release.lua does.
if KEYS[2] then
  local spoken = redis.call('GET', KEYS[3])
  if not spoken or string.sub(spoken, 1, 32) ~= ARGV[4] then
    return -2
  end
  -- Where it was not the holder it may stand in line, and will never come for that.
  redis.call('ZREM', KEYS[2], ARGV[1])
end

-- parts: order, shares, hold, fence, hand_on

local was, will = group(ARGV[1]), group(ARGV[2])
local is_downgrade = not was and will == ':s' and KEYS[2]
local found = redis.pcall('GET', KEYS[1])
if type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- an error is no answer, and never a refusal
elseif not found then
  return 0
elseif was ~= will and not is_downgrade then
  return -1
elseif found == ARGV[1] and not was then
  -- A script that has written may store also if the server is full.
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  if not will then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1
  end
  local fence = fence_in(redis.call('GET', KEYS[4])) or NO_FENCE
  redis.call('DEL', KEYS[1])
  put_share(KEYS[1], ARGV[2], fence, ARGV[3])
  hand_on(string.sub(KEYS[2], 1, -5 - #KEYS[1]), KEYS[1], KEYS[4], KEYS[2], will)
  return 1
elseif type(found) == 'table' and will and group_in(KEYS[1]) then
  local share = redis.call('HGET', KEYS[1], was and ARGV[1] or ARGV[2])
  if is_alive(share, now_ms()) and not was then
    prolong_share(KEYS[1], ARGV[2], share, ARGV[3]) -- said twice
    return 1
  elseif is_alive(share, now_ms()) then
    live_on(KEYS[1], ARGV[3])
    local ends = string.format('%016.0f', now_ms() + ARGV[3])
    local left = string.sub(share, 1, 16) .. ends .. string.sub(share, 33)
    redis.call('HSET', KEYS[1], ARGV[2], left)
    redis.call('HDEL', KEYS[1], ARGV[1])
    return 1
  end
end
return -1
