-- Reports everything that the node knows about a lock. It changes nothing.
-- KEYS: 1 the lock, 2 its fence, 3 its queue
-- ARGV: 1 how many waiters to list
-- Replies: {the node's time in microseconds, 16 digits; what read_key.lua replies; the fence, 16
--   digits, or an empty text; milliseconds since the grant; the number of waiters; {the first
--   waiters}; {for each holder of a shared lock, 100 at most: the owner, milliseconds since its
--   grant, milliseconds left}}

-- parts: order, shares, holders, fence, since

local key, holders = {}, {}
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- an error says nothing about the lock
  end
  if group_in(KEYS[1]) then
    holders = list_holders(KEYS[1], now_ms(), 100)
    key = holders[1] and {redis.call('PTTL', KEYS[1]), holders[1]} or {}
  else
    key = {redis.call('PTTL', KEYS[1]), '', redis.call('TYPE', KEYS[1]).ok}
  end
elseif value then
  key = {redis.call('PTTL', KEYS[1]), string.sub(value, 1, 512)}
end
local record = redis.call('GET', KEYS[2])
local fence = fence_in(record)
local since = fence and since_in(record, redis.call('PTTL', KEYS[2]))
local age = fence and math.max(now_ms() - since, 0) or 0
-- ZCARD would need a permission that other scripts do not need. The rank of the last waiter does
-- not.
local last = redis.call('ZRANGE', KEYS[3], -1, -1)[1]
local total = last and redis.call('ZRANK', KEYS[3], last) + 1 or 0
local waiters = {}
if last and ARGV[1] ~= '0' then
  waiters = redis.call('ZRANGE', KEYS[3], 0, ARGV[1] - 1)
end
local now = redis.call('TIME')
local time = string.format('%016.0f', now[1] * 1000000 + now[2])
return {time, key, fence or '', age, total, waiters, holders}
