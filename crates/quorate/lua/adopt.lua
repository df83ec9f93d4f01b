-- Puts a new owner in the place of the one who left the lock: of several who try, one succeeds.
-- KEYS: 1 the lock, 2 its line; absent in classic mode
-- ARGV: 1 the owner who left it, 2 the new owner, 3 ttl in milliseconds
-- Replies: 1 taken over; 0 there is no such key; -1 it is another's, whatever its type
if KEYS[2] then
  -- Where it was not the holder it may stand in line, and will never come for that.
  redis.call('ZREM', KEYS[2], ARGV[1])
end
local found = redis.pcall('GET', KEYS[1])
if found == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
elseif not found then
  return 0
elseif type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- an error is no answer, and never a refusal
end
return -1
