-- Says what is stored under a lock's name. It changes nothing.
-- KEYS: 1 the lock
-- ARGV: none
-- Replies: nothing there: {}; a string: {ms left or -1, its first 512 bytes};
--   else: {ms left or -1, '', type}
local found = redis.pcall('GET', KEYS[1])
if not found then
  return {}
elseif type(found) ~= 'table' then
  return {redis.call('PTTL', KEYS[1]), string.sub(found, 1, 512)}
elseif not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- an error is no answer
end
return {redis.call('PTTL', KEYS[1]), '', redis.call('TYPE', KEYS[1]).ok}
