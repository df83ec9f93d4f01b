-- Deletes the key if it is the owner's: the release of a lock, and the undo of an attempt.
-- KEYS: 1 the lock
-- ARGV: 1 the owner
-- Replies: 1 deleted; 0 there is no such key; -1 it is another's, whatever its type
-- Idempotent: a second run finds nothing of this owner.
local found = redis.pcall('GET', KEYS[1])
if found == ARGV[1] then
  return redis.call('DEL', KEYS[1])
elseif not found then
  return 0
elseif type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- an error is no answer, and never a refusal
end
return -1
