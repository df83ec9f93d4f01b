-- Does for each waiter of a client what acquire.lua does for one owner, in one request.
-- KEYS: 1 the client's session, then for each owner the lock, its fence, its queue; 128 at most
-- ARGV: 1 the session, 32 digits, then for each owner: the owner, its ticket, 16 digits, ttl in
--   milliseconds
-- Replies: for each owner what acquire.lua replies, or 0 for an error, which is not a refusal and
--   does not affect the other owners, or -1 if the server is full and the owner is new;
--   or instead of the list, 0 the session is stale
-- Pushes: as acquire.lua.
-- Idempotent: a second run finds the owners as holders or waiters.
local session = redis.call('GET', KEYS[1])
if not session or string.sub(session, 1, 32) ~= ARGV[1] then
  return 0
end

-- parts: order, shares, put_share, fence, hand_off, full, acquire_one

is_full(KEYS[1]) -- before the first write, after which a full server would store new owners
local replies = {}
for i = 1, (#KEYS - 1) / 3 do
  local key, arg = 3 * i - 1, 3 * i - 1
  local is_done, reply = pcall(
    acquire_one, KEYS[1], session, KEYS[key], KEYS[key + 1], KEYS[key + 2],
    ARGV[arg], ARGV[arg + 1], ARGV[arg + 2], true, true
  )
  replies[i] = is_done and not (type(reply) == 'table' and reply.err) and reply or 0
  if reply == FULL then
    replies[i] = -1
  end
end
return replies
