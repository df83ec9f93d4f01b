-- Gives the lock to the owner if nobody has it, or a place in its line.
-- KEYS: 1 the lock, 2 its fence, 3 its line, 4 the client's session
-- ARGV: 1 the owner, 2 the session, 32 digits, 3 the owner's ticket, 16 digits, 4 ttl in
--   milliseconds, 5 whether it waits: 1 or 0, 6 whether it may stand in line already: 1 or 0
-- Replies: granted: its fence, 16 digits; granted, and an earlier ticket waits: {fence};
--   the key is another's, whatever its type: {the node's fence, ms left or -1, how many stand
--   before the owner or -1, 1 if the holder is another library's, else 0};
--   0 the session is not of today
-- Tells a holder with a later ticket: I, its fence, its owner, and in a last line the lock.
-- Idempotent: a second run finds the owner as holder, or in line.
local spoken = redis.call('GET', KEYS[4])
if not spoken or string.sub(spoken, 1, 32) ~= ARGV[2] then
  return 0
end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[4]) then
  local fence = ARGV[3]
  local stored = redis.call('SET', KEYS[2], fence, 'PX', '86400000', 'GET')
  local low, high = string.sub(spoken, 33, 48), string.sub(spoken, 49)
  if fence > high or stored and stored >= fence or not stored and fence < low then
    -- The ticket counts for no more than the node's time allows, and the fence must grow.
    local least = stored and stored + 1 or low
    fence = string.format('%016.0f', math.max(math.min(fence, high), least))
    redis.call('SET', KEYS[2], fence, 'PX', '86400000')
  end
  if ARGV[6] == '1' then
    redis.call('ZREM', KEYS[3], ARGV[1])
  end
  return fence
end

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

local found = redis.pcall('GET', KEYS[1])
local fence = redis.call('GET', KEYS[2]) or '0000000000000000'
if found == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
  end
  local first = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  return first and is_before(first, found) and {fence} or fence
end
local client
if type(found) ~= 'table' then
  local ticket, holder = string.match(found, '^q1:(%d+):%d+:([0-9a-f]+):')
  client = ticket and #ticket == 16 and #holder == 40 and holder
elseif not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- an error is no answer, and never a refusal
end
if ARGV[5] == '1' then
  redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
  if redis.call('PTTL', KEYS[3]) < 2 * ARGV[4] then
    redis.call('PEXPIRE', KEYS[3], 2 * ARGV[4])
  end
end
if client and is_before(ARGV[1], found) then
  local prefix = string.sub(KEYS[4], 1, -43)
  local news = 'I ' .. fence .. ' ' .. found .. '\n' .. KEYS[1]
  redis.call('PUBLISH', prefix .. 'c:' .. client, news)
end
local rank = redis.call('ZRANK', KEYS[3], ARGV[1]) or -1
return {fence, redis.call('PTTL', KEYS[1]), rank, client and 0 or 1}
