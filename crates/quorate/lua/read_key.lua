-- Reads the key of a lock. It changes nothing. Of several holders it reports the one that ARGV
-- names, or else the first.
-- KEYS: 1 the lock
-- ARGV: 1 the owner to look for, or nothing
-- Replies: no such key: {}; a text: {milliseconds left or -1, its first 512 bytes};
--   another type: {milliseconds left or -1, '', type}
local value = redis.pcall('GET', KEYS[1])
if not value then
  return {}
elseif type(value) ~= 'table' then
  return {redis.call('PTTL', KEYS[1]), string.sub(value, 1, 512)}
elseif not string.find(value.err, 'WRONGTYPE', 1, true) then
  return value -- an error says nothing about the lock
end

-- parts: order, shares, holders

if not group_in(KEYS[1]) then
  return {redis.call('PTTL', KEYS[1]), '', redis.call('TYPE', KEYS[1]).ok}
end
local now, share = now_ms(), ARGV[1] and redis.call('HGET', KEYS[1], ARGV[1])
if is_alive(share, now) then
  return {tonumber(string.sub(share, 17, 32)) - now, ARGV[1]}
end
local first = list_holders(KEYS[1], now, 1)[1]
return first and {redis.call('PTTL', KEYS[1]), first} or {}
