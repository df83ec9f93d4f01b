-- Releases a lock, or removes a waiter from its queue, and grants the lock to the next waiter.
-- Other clients never see the lock free while a waiter is queued. With ARGV 2 it is a yield: it
-- returns one grant, and the owner stays queued.
-- KEYS: 1 the lock, 2 its fence, 3 its queue; for a yield: 4 the client's session
-- ARGV: 1 the owner; for a yield: 2 the fence of the grant, 16 digits, 3 the session, 32 digits,
--   4 the owner's ticket, 16 digits, 5 ttl in milliseconds
-- Replies: 1 the owner held the lock; 0 it did not, or the session is stale
-- Pushes: GRANTED to the next waiter, or to several that share the lock: the letter G, the fence,
--   the session for which the lock is granted, and the owner, and on a line of its own the lock.
-- Idempotent: a second run finds nothing of this owner, or another grant.
local yields
if ARGV[2] then
  -- The client may count the grant again in the meantime, in a later session.
  local session = redis.call('GET', KEYS[4])
  if not session or string.sub(session, 1, 32) ~= ARGV[3] then
    return 0
  end
  yields = {fence = ARGV[2], ticket = ARGV[4], ttl = ARGV[5]}
end

-- parts: release_one

return release_one(
  string.sub(KEYS[2], 1, -5 - #KEYS[1]), KEYS[1], KEYS[2], KEYS[3], ARGV[1], yields, false
)
