-- Lets the key live on from now if it is the owner's. It never creates the key again.
-- KEYS: 1 the lock
-- ARGV: 1 the owner, 2 ttl in milliseconds
-- Replies: 1 lives on; 0 there is no such key; -1 it is another's, whatever its type
-- Idempotent: a second run only counts the time anew.
local found = redis.pcall('GET', KEYS[1])
if found == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif not found then
  return 0
elseif type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- an error is no answer, and never a refusal
end
return -1
