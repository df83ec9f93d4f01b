-- Lets a new node vote immediately, if it contains no other key than its record.
-- KEYS: 1 the node's record
-- ARGV: 1 the mark that the node reported, 2 its new mark
-- Replies: 0 the node votes; the number of keys besides the record, if there are any; -1 the node
--   has another mark, or is not new, or has no place in the set
local mark, reason, enrolled = unpack(redis.call('HMGET', KEYS[1], 'mark', 'doubt', 'enrolled'))
if mark ~= ARGV[1] or reason ~= 'unknown' or enrolled ~= '1' then
  return -1
end
local keys = redis.call('DBSIZE') - 1
if keys == 0 then
  -- After any write, even one that changes nothing, a full server lets the script store.
  redis.call('HDEL', KEYS[1], '')
  redis.call('HSET', KEYS[1], 'mark', ARGV[2], 'doubt', '', 'since', '', 'since_wall', '')
end
return keys
