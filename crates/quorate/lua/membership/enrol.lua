-- Gives a node in quarantine its place in the set. The quarantine time begins then.
-- KEYS: 1 the node's record
-- ARGV: 1 the mark that the node reported, 2 its name, 3 the client's wall clock in milliseconds,
--   4 the number of the change, 5 the origin of the set, 6 its nodes, 7 its nodes before or
--   nothing, 8 the newcomer or nothing, 9 max ttl in milliseconds, 10 the quarantine time in
--   milliseconds
-- Replies: 1 the node has its place; 0 the node has another mark, or is not in quarantine
local mark, reason, enrolled, change =
  unpack(redis.call('HMGET', KEYS[1], 'mark', 'doubt', 'enrolled', 'change'))
if mark ~= ARGV[1] or reason == '' then
  return 0
end
if enrolled == '1' and tonumber(change) >= tonumber(ARGV[4]) then
  return 1
end
local now = redis.call('TIME')
local ms = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
-- After any write, even one that changes nothing, a full server lets the script store.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'id', ARGV[2], 'enrolled', '1', 'since', ms, 'since_wall', ARGV[3],
  'change', ARGV[4], 'origin', ARGV[5], 'members', ARGV[6], 'before', ARGV[7],
  'newcomer', ARGV[8], 'max_ttl', ARGV[9], 'quarantine_ms', ARGV[10])
-- The node has now received this change. Before the first change no client uses another config.
if tonumber(ARGV[4]) > 1 then
  redis.call('HSET', KEYS[1], 'changed', ms)
end
return 1
