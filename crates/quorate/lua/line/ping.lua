-- Goes on with a session.
-- KEYS: 1 the client's session
-- ARGV: 1 the session, 32 digits, 2 its life in milliseconds
-- Replies: the node's time in microseconds, 16 digits; 0 the session is not of today
local spoken = redis.call('GET', KEYS[1])
if not spoken or string.sub(spoken, 1, 32) ~= ARGV[1] then
  return 0
end
local now = redis.call('TIME')
local time = string.format('%016.0f', now[1] * 1000000 + now[2])
redis.call('SET', KEYS[1], ARGV[1] .. time, 'PX', ARGV[2])
return time
