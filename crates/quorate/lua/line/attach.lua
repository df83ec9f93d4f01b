-- Begins a session: from now on the client speaks with this one, and with no other.
-- KEYS: 1 the client's session
-- ARGV: 1 the session, 32 digits, 2 its life in milliseconds
-- Replies: the node's time in microseconds, 16 digits
local now = redis.call('TIME')
local time = string.format('%016.0f', now[1] * 1000000 + now[2])
redis.call('SET', KEYS[1], ARGV[1] .. time, 'PX', ARGV[2])
return time
