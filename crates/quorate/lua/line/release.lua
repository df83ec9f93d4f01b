-- Gives a lock or a place in its line back, and hands the lock to the next in line: others never
-- see it free while somebody waits.
-- KEYS: 1 the lock, 2 its fence, 3 its line
-- ARGV: 1 the owner; if it gives one grant back and stays in line: 2 the fence of that grant, 16
--   digits, 3 the owner's ticket, 16 digits, 4 ttl in milliseconds
-- Replies: 1 the key was the owner's; 0 it was not
-- Tells the next in line: G, the fence, the session by which it is granted, its owner, and in a
--   last line the lock.
-- Idempotent: a second run finds nothing of this owner, or another grant.
local found = redis.pcall('GET', KEYS[1])
local is_ours = found == ARGV[1]
if is_ours then
  if ARGV[2] and (redis.call('GET', KEYS[2]) or '0000000000000000') ~= ARGV[2] then
    return 0
  end
  -- Comes first: a script that has deleted may write also if there is no memory left.
  redis.call('DEL', KEYS[1])
  if ARGV[3] then
    redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
    if redis.call('PTTL', KEYS[3]) < 2 * ARGV[4] then
      redis.call('PEXPIRE', KEYS[3], 2 * ARGV[4])
    end
  end
elseif type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- an error is no answer, and never a refusal
elseif ARGV[2] then
  return 0
else
  redis.call('ZREM', KEYS[3], ARGV[1])
  if found then
    return 0
  end
end

local first = redis.call('ZPOPMIN', KEYS[3])[1]
while first do
  local ticket, ttl, client = string.match(first, '^q1:(%d+):(%d+):(%x+):')
  local prefix = string.sub(KEYS[2], 1, -5 - #KEYS[1])
  local spoken = client and redis.call('GET', prefix .. 's:' .. client)
  if spoken then
    local fence = ticket
    local stored = redis.call('SET', KEYS[2], fence, 'PX', '86400000', 'GET')
    local low, high = string.sub(spoken, 33, 48), string.sub(spoken, 49)
    if fence > high or stored and stored >= fence or not stored and fence < low then
      -- The ticket counts for no more than the node's time allows, and the fence must grow.
      local least = stored and stored + 1 or low
      fence = string.format('%016.0f', math.max(math.min(fence, high), least))
      redis.call('SET', KEYS[2], fence, 'PX', '86400000')
    end
    local session = string.sub(spoken, 1, 32)
    local news = 'G ' .. fence .. ' ' .. session .. ' ' .. first .. '\n' .. KEYS[1]
    if redis.call('PUBLISH', prefix .. 'c:' .. client, news) > 0 then
      redis.call('SET', KEYS[1], first, 'PX', ttl)
      break
    end
  end
  first = redis.call('ZPOPMIN', KEYS[3])[1]
end
return is_ours and 1 or 0
