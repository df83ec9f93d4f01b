-- Gives a doubted node its place among the others. Its guard begins then.
-- KEYS: 1 the node's record
-- ARGV: 1 its mark as it was met, 2 its name, 3 the client's wall clock in milliseconds, 4 the
--   change of the set, 5 its origin, 6 its nodes, 7 its nodes before or nothing, 8 the newcomer or
--   nothing, 9 the longest ttl in milliseconds, 10 the guard in milliseconds
-- Replies: 1 it has its place; 0 the mark is another one, or the node is not doubted
local mark, doubt, enrolled, change =
  unpack(redis.call('HMGET', KEYS[1], 'mark', 'doubt', 'enrolled', 'change'))
if mark ~= ARGV[1] or doubt == '' then
  return 0
end
if enrolled == '1' and tonumber(change) >= tonumber(ARGV[4]) then
  return 1
end
local now = redis.call('TIME')
local ms = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
-- A script that has written may store also if the server is full.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'id', ARGV[2], 'enrolled', '1', 'since', ms, 'since_wall', ARGV[3],
  'change', ARGV[4], 'origin', ARGV[5], 'members', ARGV[6], 'before', ARGV[7],
  'newcomer', ARGV[8], 'max_ttl', ARGV[9], 'guard', ARGV[10])
-- It has heard of the change now. Before the first there is nobody who goes by another.
if tonumber(ARGV[4]) > 1 then
  redis.call('HSET', KEYS[1], 'changed', ms)
end
return 1
