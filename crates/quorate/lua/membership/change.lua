-- Tells a node that the set of nodes is another one. All sessions end with its mark.
-- KEYS: 1 the node's record
-- ARGV: 1 its mark as it was met, 2 its new mark, 3 nothing, 4 the change of the set, 5 its origin,
--   6 its nodes, 7 its nodes before or nothing, 8 the newcomer or nothing, 9 the longest ttl in
--   milliseconds, 10 the guard in milliseconds
-- Replies: {} the node goes by the new set; {ms} the last change was too short a while ago;
--   0 the mark is another one, or the set is, or the node has heard of this change or a later one
local mark, change, origin, changed, guard =
  unpack(redis.call('HMGET', KEYS[1], 'mark', 'change', 'origin', 'changed', 'guard'))
if mark ~= ARGV[1] or not change or origin ~= ARGV[5] or tonumber(change) >= tonumber(ARGV[4]) then
  return 0
end
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
-- Those who go by the list before the last one must be gone.
changed = changed and math.min(changed, ms)
if changed and changed + guard > ms then
  return {changed + guard - ms}
end
-- A script that has written may store also if the server is full.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'mark', ARGV[2], 'changed', string.format('%.0f', ms),
  'change', ARGV[4], 'members', ARGV[6], 'before', ARGV[7], 'newcomer', ARGV[8],
  'max_ttl', ARGV[9], 'guard', ARGV[10])
return {}
