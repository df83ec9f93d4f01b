-- Says all that is known about a lock. It changes nothing.
-- KEYS: 1 the lock, 2 its fence, 3 its line
-- ARGV: 1 how many of those in line are told
-- Replies: {the node's time in microseconds, 16 digits, what look.lua replies, the fence, 16 digits
--   or nothing, ms since it was granted, how many stand in line, {the first of them}, {for each of
--   those who hold it together, a hundred at most: who, ms since when, ms left}}

-- parts: order, shares, told, fence, since

local seen, shares = {}, {}
local found = redis.pcall('GET', KEYS[1])
if type(found) == 'table' then
  if not string.find(found.err, 'WRONGTYPE', 1, true) then
    return found -- an error is no answer
  end
  if group_in(KEYS[1]) then
    shares = told(KEYS[1], now_ms(), 100)
    seen = shares[1] and {redis.call('PTTL', KEYS[1]), shares[1]} or {}
  else
    seen = {redis.call('PTTL', KEYS[1]), '', redis.call('TYPE', KEYS[1]).ok}
  end
elseif found then
  seen = {redis.call('PTTL', KEYS[1]), string.sub(found, 1, 512)}
end
local record = redis.call('GET', KEYS[2])
local fence = fence_in(record)
local since = fence and since_in(record, redis.call('PTTL', KEYS[2]))
local age = fence and math.max(now_ms() - since, 0) or 0
-- The rank of the last one needs no right that those who wait do not have anyway.
local last = redis.call('ZRANGE', KEYS[3], -1, -1)[1]
local total = last and redis.call('ZRANK', KEYS[3], last) + 1 or 0
local waiting = {}
if last and ARGV[1] ~= '0' then
  waiting = redis.call('ZRANGE', KEYS[3], 0, ARGV[1] - 1)
end
local now = redis.call('TIME')
local time = string.format('%016.0f', now[1] * 1000000 + now[2])
return {time, seen, fence or '', age, total, waiting, shares}
