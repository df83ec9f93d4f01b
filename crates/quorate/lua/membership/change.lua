-- Replaces the agreed config of a node. The new mark ends all sessions.
-- KEYS: 1 the node's record
-- ARGV: 1 the mark that the node reported, 2 its new mark, 3 nothing, 4 the number of the change,
--   5 the origin of the set, 6 its nodes, 7 its nodes before or nothing, 8 the newcomer or nothing,
--   9 max ttl in milliseconds, 10 the quarantine time in milliseconds
-- Replies: {} the node has the new config; {milliseconds left} the last change was too recent;
--   0 the node has another mark, belongs to another set, or knows this change or a later one
local mark, change, origin, changed, quarantine_ms =
  unpack(redis.call('HMGET', KEYS[1], 'mark', 'change', 'origin', 'changed', 'quarantine_ms'))
if mark ~= ARGV[1] or not change or origin ~= ARGV[5] or tonumber(change) >= tonumber(ARGV[4]) then
  return 0
end
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
-- No client may use the config before the last one any more.
changed = changed and math.min(changed, ms)
if changed and changed + quarantine_ms > ms then
  return {changed + quarantine_ms - ms}
end
-- After any write, even one that changes nothing, a full server lets the script store.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'mark', ARGV[2], 'changed', string.format('%.0f', ms),
  'change', ARGV[4], 'members', ARGV[6], 'before', ARGV[7], 'newcomer', ARGV[8],
  'max_ttl', ARGV[9], 'quarantine_ms', ARGV[10])
return {}
