-- Lets each key live on from now if it is its owner's. It never creates a key again, and never
-- lets one go earlier than it would: an order that comes late must not undo a later one.
-- KEYS: the locks, 128 at most; on a guarded node the client's session behind them
-- ARGV: for each lock its owner, then its ttl in milliseconds; on a guarded node the session, 32
--   digits, behind them
-- Replies: for each lock 1 lives on; 0 there is no such key; -1 it is another's, whatever its type;
--   -2 an error, which is no answer and never a refusal, and which leaves the others alone;
--   in place of all that, 0 the session is not of today
-- Idempotent: a second run only counts the time anew.
local locks = math.floor(#ARGV / 2)
if #KEYS > locks then
  local spoken = redis.call('GET', KEYS[#KEYS])
  if not spoken or string.sub(spoken, 1, 32) ~= ARGV[#ARGV] then
    return 0
  end
end
local fates = {}
for i = 1, locks do
  local found = redis.pcall('GET', KEYS[i])
  if found == ARGV[2 * i - 1] then
    local done = 1
    if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2 * i]) then
      done = redis.pcall('PEXPIRE', KEYS[i], ARGV[2 * i])
    end
    fates[i] = type(done) == 'table' and -2 or done
  elseif not found then
    fates[i] = 0
  elseif type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
    fates[i] = -2
  else
    fates[i] = -1
  end
end
return fates
