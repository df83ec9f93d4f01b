-- Does for each owner who stands in line what acquire.lua does for one: those who wait are heard
-- of together.
-- KEYS: 1 the client's session, then for each owner the lock, its fence, its line; 128 at most
-- ARGV: 1 the session, 32 digits, then for each owner: the owner, its ticket, 16 digits, ttl in
--   milliseconds
-- Replies: for each owner what acquire.lua replies, and 0 for an error, which is no answer and
--   never a refusal, and which leaves the others alone; in place of all that, 0 the session is
--   not of today
-- Tells holders with a later ticket as acquire.lua does.
-- Idempotent: a second run finds the owners as holders, or in line.
local spoken = redis.call('GET', KEYS[1])
if not spoken or string.sub(spoken, 1, 32) ~= ARGV[1] then
  return 0
end
local low, high = string.sub(spoken, 33, 48), string.sub(spoken, 49)
local prefix = string.sub(KEYS[1], 1, -43)

-- Digits are the same in every language of the server, but other signs are not: by bytes.
local function is_before(one, other)
  local ticket, others = string.sub(one, 4, 19), string.sub(other, 4, 19)
  if ticket ~= others then
    return ticket < others
  end
  for i = 20, #one do
    local byte, others = string.byte(one, i), string.byte(other, i) or -1
    if byte ~= others then
      return byte < others
    end
  end
  return #one < #other
end

local function grant(lock, fence_key, line, owner, fence, ttl)
  redis.call('SET', lock, owner, 'PX', ttl)
  local stored = redis.call('SET', fence_key, fence, 'PX', '86400000', 'GET')
  if fence > high or stored and stored >= fence or not stored and fence < low then
    -- The ticket counts for no more than the node's time allows, and the fence must grow.
    local least = stored and stored + 1 or low
    fence = string.format('%016.0f', math.max(math.min(fence, high), least))
    redis.call('SET', fence_key, fence, 'PX', '86400000')
  end
  redis.call('ZREM', line, owner)
  return fence
end

local function hear(lock, fence_key, line, owner, ticket, ttl)
  local found = redis.pcall('GET', lock)
  if not found then
    return grant(lock, fence_key, line, owner, ticket, ttl)
  end
  local fence = redis.call('GET', fence_key) or '0000000000000000'
  if found == owner then
    if redis.call('PTTL', lock) < tonumber(ttl) then
      redis.call('PEXPIRE', lock, ttl)
    end
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    return first and is_before(first, found) and {fence} or fence
  end
  local client
  if type(found) ~= 'table' then
    local number, holder = string.match(found, '^q1:(%d+):%d+:([0-9a-f]+):')
    client = number and #number == 16 and #holder == 40 and holder
  elseif not string.find(found.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  redis.call('ZADD', line, ticket, owner)
  if redis.call('PTTL', line) < 2 * ttl then
    redis.call('PEXPIRE', line, 2 * ttl)
  end
  if client and is_before(owner, found) then
    redis.call('PUBLISH', prefix .. 'c:' .. client, 'I ' .. fence .. ' ' .. found .. '\n' .. lock)
  end
  local rank = redis.call('ZRANK', line, owner) or -1
  return {fence, redis.call('PTTL', lock), rank, client and 0 or 1}
end

local replies = {}
for i = 1, (#KEYS - 1) / 3 do
  local at, said = 3 * i - 1, 3 * i - 1
  local is_heard, reply =
    pcall(hear, KEYS[at], KEYS[at + 1], KEYS[at + 2], ARGV[said], ARGV[said + 1], ARGV[said + 2])
  replies[i] = is_heard and reply or 0
end
return replies
