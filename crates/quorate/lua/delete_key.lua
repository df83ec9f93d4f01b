-- Deletes the key if it has the owner: the release of a lock, and the undo of an attempt.
-- KEYS: 1 the lock
-- ARGV: 1 the owner
-- Replies: 1 deleted; 0 there is no such key; -1 the key has another value, of any type
-- Idempotent: a second run finds nothing of this owner.
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  return redis.call('DEL', KEYS[1])
elseif not value then
  return 0
elseif type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
  return value -- an error is not a refusal
end
return -1
