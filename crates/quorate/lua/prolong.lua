-- Lets each key live on from now if it is its owner's. It never creates a key again, and never
-- lets one go earlier than it would: an order that comes late must not undo a later one.
-- KEYS: the locks, 128 at most
-- ARGV: for each lock its owner, then its ttl in milliseconds
-- Replies: for each lock 1 lives on; 0 there is no such key; -1 it is another's, whatever its type;
--   -2 an error, which is no answer and never a refusal, and which leaves the others alone
-- Idempotent: a second run only counts the time anew.
local fates = {}
for i = 1, #KEYS do
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
