-- Lets a new node vote at once, if it holds nothing.
-- KEYS: 1 the node's record
-- ARGV: 1 its mark as it was met, 2 its new mark
-- Replies: 0 it votes; how many keys it has besides the record; -1 the mark is another one, or the
--   node is not new, or has no place among the others
local mark, doubt, enrolled = unpack(redis.call('HMGET', KEYS[1], 'mark', 'doubt', 'enrolled'))
if mark ~= ARGV[1] or doubt ~= 'unknown' or enrolled ~= '1' then
  return -1
end
local keys = redis.call('DBSIZE') - 1
if keys == 0 then
  -- A script that has written may store also if the server is full.
  redis.call('HDEL', KEYS[1], '')
  redis.call('HSET', KEYS[1], 'mark', ARGV[2], 'doubt', '', 'since', '', 'since_wall', '')
end
return keys
