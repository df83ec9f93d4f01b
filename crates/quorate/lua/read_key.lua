-- Says what is stored under a lock's name. It changes nothing. Of those who hold it together the
-- one is told that is asked for, or else the first.
-- KEYS: 1 the lock
-- ARGV: 1 the owner that is asked for, or nothing
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

-- parts: order, shares, told

if not group_in(KEYS[1]) then
  return {redis.call('PTTL', KEYS[1]), '', redis.call('TYPE', KEYS[1]).ok}
end
local now, share = now_ms(), ARGV[1] and redis.call('HGET', KEYS[1], ARGV[1])
if is_alive(share, now) then
  return {tonumber(string.sub(share, 17, 32)) - now, ARGV[1]}
end
local first = told(KEYS[1], now, 1)[1]
return first and {redis.call('PTTL', KEYS[1]), first} or {}
