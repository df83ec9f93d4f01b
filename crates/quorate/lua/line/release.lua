-- Gives a lock or a place in its line back, and hands the lock to the next in line: others never
-- see it free while somebody waits.
-- KEYS: 1 the lock, 2 its fence, 3 its line
-- ARGV: 1 the owner; if it gives one grant back and stays in line: 2 the fence of that grant, 16
--   digits, 3 the owner's ticket, 16 digits, 4 ttl in milliseconds
-- Replies: the key was the owner's: the node's fence, 16 digits; it was not: {fence}
-- Tells the next in line: G, the fence, its owner, and in a last line the lock.
-- Idempotent: a second run finds nothing of this owner, or another grant.
local found = redis.call('MGET', KEYS[1], KEYS[2])
local fence = found[2] or '0000000000000000'
local is_ours = found[1] == ARGV[1]
if ARGV[2] and (not is_ours or fence ~= ARGV[2]) then
  return {fence}
elseif is_ours then
  -- Comes first: a script that has deleted may write also if there is no memory left.
  redis.call('DEL', KEYS[1])
  if ARGV[3] then
    redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
    if redis.call('PTTL', KEYS[3]) < 2 * ARGV[4] then
      redis.call('PEXPIRE', KEYS[3], 2 * ARGV[4])
    end
  end
else
  redis.call('ZREM', KEYS[3], ARGV[1])
  -- What is not text is not told by MGET.
  if found[1] or redis.call('EXISTS', KEYS[1]) == 1 then
    return {fence}
  end
end

local first = redis.call('ZPOPMIN', KEYS[3])[1]
while first do
  local ticket, ttl, client = string.match(first, '^q1:(%d+):(%d+):(%x+):')
  local prefix = string.sub(KEYS[2], 1, -5 - #KEYS[1])
  local spoken = client and redis.call('GET', prefix .. 's:' .. client)
  if spoken then
    -- The ticket counts for no more than the node's time and 10 s, and the fence must grow.
    local time = tonumber(string.sub(spoken, 33))
    local least = found[2] and fence + 1 or time - 10000000
    fence = string.format('%016.0f', math.max(math.min(ticket, time + 10000000), least))
    found[2] = fence
    redis.call('SET', KEYS[2], fence, 'PX', '86400000')
    local news = 'G ' .. fence .. ' ' .. first .. '\n' .. KEYS[1]
    if redis.call('PUBLISH', prefix .. 'c:' .. client, news) > 0 then
      redis.call('SET', KEYS[1], first, 'PX', ttl)
      break
    end
  end
  first = redis.call('ZPOPMIN', KEYS[3])[1]
end
return is_ours and fence or {fence}
