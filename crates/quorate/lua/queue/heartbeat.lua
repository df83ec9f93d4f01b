-- Does for each owner who stands in line what acquire.lua does for one: those who wait are heard
-- of together.
-- KEYS: 1 the client's session, then for each owner the lock, its fence, its line; 128 at most
-- ARGV: 1 the session, 32 digits, then for each owner: the owner, its ticket, 16 digits, ttl in
--   milliseconds
-- Replies: for each owner what acquire.lua replies, and 0 for an error, which is no answer and
--   never a refusal, and which leaves the others alone, or -1 if the server is full and the owner
--   is new; in place of all that, 0 the session is not of today
-- Tells others what acquire.lua tells them.
-- Idempotent: a second run finds the owners as holders, or in line.
local spoken = redis.call('GET', KEYS[1])
if not spoken or string.sub(spoken, 1, 32) ~= ARGV[1] then
  return 0
end

-- parts: order, shares, hold, fence, hand_on, full, hear

is_full(KEYS[1]) -- Before anything is written: what one owner writes must not let a new one in.
local replies = {}
for i = 1, (#KEYS - 1) / 3 do
  local at, said = 3 * i - 1, 3 * i - 1
  local is_heard, reply = pcall(
    hear, KEYS[1], spoken, KEYS[at], KEYS[at + 1], KEYS[at + 2],
    ARGV[said], ARGV[said + 1], ARGV[said + 2], true, true
  )
  replies[i] = is_heard and not (type(reply) == 'table' and reply.err) and reply or 0
  if reply == FULL then
    replies[i] = -1
  end
end
return replies
