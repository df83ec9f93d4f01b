-- Reads a value for a holder of a lock, and rejects every earlier holder from then on.
-- KEYS: 1 the value, 2 its fence
-- ARGV: 1 the holder's fence
-- Replies: {1, the value}, or {1, nil} if there is none; {0} a later holder has used the value
local fence = ARGV[1]
assert(string.find(fence, '^%d+$') and #fence <= 20, 'ERR a fence is a number')
-- Compared as text with leading zeros: the numbers of Lua are exact up to 2^53 only.
fence = string.rep('0', 20 - #fence) .. fence
local highest = redis.call('GET', KEYS[2])
if highest and highest > fence then
  return {0}
end
redis.call('SET', KEYS[2], fence)
return {1, redis.call('GET', KEYS[1])}
