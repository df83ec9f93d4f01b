-- Begins a session. From now on the node accepts this session of the client and no other.
-- KEYS: 1 the client's session, 2 the node's record
-- ARGV: 1 the session, 32 digits, 2 how long it lasts in milliseconds, 3 the mark from the
--   membership handshake, or nothing without quarantine, 4 how far a ticket may be from the node's
--   time, in microseconds, 5 the client's wall clock in milliseconds
-- Replies: the node's time in microseconds, 16 digits; 0 the node has another mark, or is in
--   quarantine, or no client was connected for longer than a session lasts; -1 the node requires
--   quarantine
local fields = redis.call('HMGET', KEYS[2], 'mark', 'doubt', 'seen', 'change')
local mark, reason, seen, change = unpack(fields)
if ARGV[3] == '' then
  if change then
    return -1
  end
elseif mark ~= ARGV[3] or reason ~= '' then
  return 0
end
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
-- Otherwise a step of the clock since the handshake would go unnoticed.
if ARGV[3] ~= '' and math.floor(time / 1000) > seen + ARGV[2] then
  return 0
end
local ticket_min, ticket_max = math.max(time - ARGV[4], 0), time + ARGV[4]
local session = ARGV[1] .. string.format('%016.0f%016.0f', ticket_min, ticket_max)
-- After any write, a full server lets the script store. A session is small, and without it all
-- leases of the client would expire.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[1], session, 'PX', ARGV[2])
local ms = math.floor(time / 1000)
if mark and (ms >= tonumber(seen) or ms + 1000 < tonumber(seen)) then
  redis.call('HSET', KEYS[2], 'seen', string.format('%.0f', ms), 'seen_wall', ARGV[5])
end
return string.format('%016.0f', time)
