-- Stores the owner if nothing is there: classic mode on a guarded node, where a vote needs a
-- session as in the default mode. Without a guard it is the plain SET.
-- KEYS: 1 the lock, 2 the client's session
-- ARGV: 1 the owner, 2 ttl in milliseconds, 3 the session, 32 digits
-- Replies: what SET replies: OK taken; nothing if it is another's, whatever its type; 0 the session
--   is not of today
local spoken = redis.call('GET', KEYS[2])
if not spoken or string.sub(spoken, 1, 32) ~= ARGV[3] then
  return 0
end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
