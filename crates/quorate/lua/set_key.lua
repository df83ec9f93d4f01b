-- Stores the owner if there is no such key, in classic mode with quarantine, where a vote needs a
-- session. Without quarantine the client sends a plain SET instead.
-- KEYS: 1 the lock, 2 the client's session
-- ARGV: 1 the owner, 2 ttl in milliseconds, 3 the session, 32 digits
-- Replies: as SET: OK stored; nothing if there is a key, of any type; 0 the session is stale
local session = redis.call('GET', KEYS[2])
if not session or string.sub(session, 1, 32) ~= ARGV[3] then
  return 0
end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
