-- Grants the lock to the owner if it is free, or queues the owner. Owners that end with :s are
-- readers, and share the lock with each other; the entries of one identity, which end with :r, do
-- so too.
-- KEYS: 1 the lock, 2 its fence, 3 its queue, 4 the client's session
-- ARGV: 1 the owner, 2 the session, 32 digits, 3 the owner's ticket, 16 digits, 4 ttl in
--   milliseconds, 5 1 if the owner is to be queued, else 0, 6 1 if it may be queued already, else 0
-- Replies: granted: its fence, 16 digits; granted, and a waiter with an earlier ticket is queued:
--   {fence}; the key has another value, of any type: {the node's fence, milliseconds left or -1,
--   the owner's position in the queue or -1, 1 if the holder is another library's, else 0};
--   0 the session is stale; an error OOM, if the server is full and the owner is new: it neither
--   holds the lock nor is queued
-- Pushes: INQUIRED to holders with a later ticket: the letter I, the fence and the owner, and on a
--   line of its own the lock. GRANTED to waiters that join with the owner; see release.lua.
-- Idempotent: a second run finds the owner as holder or waiter.
local session = redis.call('GET', KEYS[4])
if not session or string.sub(session, 1, 32) ~= ARGV[2] then
  return 0
end
local kind = string.sub(ARGV[1], -2)
local is_exclusive = kind ~= ':s' and kind ~= ':r'
local stored_key = is_exclusive and redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[4])
if stored_key and stored_key.ok then
  local fence = ARGV[3]
  local last = redis.call('SET', KEYS[2], fence, 'PX', '86400000', 'GET')
  local ticket_min, ticket_max = string.sub(session, 33, 48), string.sub(session, 49)
  -- As texts, a record with the time of its grant is greater than its fence alone.
  if fence > ticket_max or fence < ticket_min or last and last >= fence then
    -- The node's time limits the ticket, and fences must grow.
    local known = last and string.match(last, '^(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)%d*$')
    local least = known and known + 1 or ticket_min
    fence = string.format('%016.0f', math.max(math.min(fence, ticket_max), least))
    redis.call('SET', KEYS[2], fence, 'PX', '86400000')
  end
  if ARGV[6] == '1' then
    redis.call('ZREM', KEYS[3], ARGV[1])
  end
  return fence
end

-- parts: order, shares, put_share, fence, hand_off, full, acquire_one

if is_exclusive then
  record_full(stored_key)
  if stored_key and not is_full(KEYS[4]) then
    return stored_key -- another error is not a refusal
  end
end
return acquire_one(
  KEYS[4], session, KEYS[1], KEYS[2], KEYS[3],
  ARGV[1], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6] == '1'
)
