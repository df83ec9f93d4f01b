-- Keeps each key for another ttl if it has its owner. It never stores a key that is gone, and never
-- makes a key expire earlier: a request that is delayed must not undo a later one.
-- KEYS: the locks, 128 at most; with quarantine the client's session follows
-- ARGV: for each lock its owner, then its ttl in milliseconds; with quarantine the session, 32
--   digits, follows
-- Replies: for each lock 1 extended; 0 there is no such key; -1 the key has another value, of any
--   type; -2 an error, which is not a refusal and does not affect the other locks;
--   or instead of the list, 0 the session is stale, or the number of locks: each is extended
-- Idempotent: a second run only counts the ttl from a later time.
local locks = math.floor(#ARGV / 2)
if #KEYS > locks then
  local session = redis.call('GET', KEYS[#KEYS])
  if not session or string.sub(session, 1, 32) ~= ARGV[#ARGV] then
    return 0
  end
end
local replies, is_usual = {}, true
for i = 1, locks do
  local value = redis.pcall('GET', KEYS[i])
  if value == ARGV[2 * i - 1] then
    local done = 1
    if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2 * i]) then
      done = redis.pcall('PEXPIRE', KEYS[i], ARGV[2 * i])
    end
    replies[i] = type(done) == 'table' and -2 or done
  elseif not value then
    replies[i] = 0
  elseif type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    replies[i] = -2
  else
    replies[i] = -1
  end
  is_usual = is_usual and replies[i] == 1
end
return is_usual and #replies or replies
