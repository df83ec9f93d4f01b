-- Begins a session: from now on the client speaks with this one, and with no other.
-- KEYS: 1 the client's session, 2 the node's record
-- ARGV: 1 the session, 32 digits, 2 its life in milliseconds, 3 the node's mark as the client has
--   judged it, or nothing if nodes are not guarded, 4 how far a ticket may lie from the node's
--   time, in microseconds, 5 the client's wall clock in milliseconds
-- Replies: the node's time in microseconds, 16 digits; 0 the mark is another one, or the node is
--   doubted, or nobody was here for longer than a session lasts; -1 nodes are guarded here
local fields = redis.call('HMGET', KEYS[2], 'mark', 'doubt', 'seen', 'change')
local mark, doubt, seen, change = unpack(fields)
if ARGV[3] == '' then
  if change then
    return -1
  end
elseif mark ~= ARGV[3] or doubt ~= '' then
  return 0
end
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
-- A clock that was set since the client met the node would hide behind its session.
if ARGV[3] ~= '' and math.floor(time / 1000) > seen + ARGV[2] then
  return 0
end
local low, high = math.max(time - ARGV[4], 0), time + ARGV[4]
local spoken = ARGV[1] .. string.format('%016.0f%016.0f', low, high)
-- A script that has written may store also if the server is full: a session is small, and without
-- it every lease of the client would run out.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[1], spoken, 'PX', ARGV[2])
local ms = math.floor(time / 1000)
if mark and (ms >= tonumber(seen) or ms + 1000 < tonumber(seen)) then
  redis.call('HSET', KEYS[2], 'seen', string.format('%.0f', ms), 'seen_wall', ARGV[5])
end
return string.format('%016.0f', time)
