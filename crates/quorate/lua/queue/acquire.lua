-- Gives the lock to the owner if nobody has it, or a place in its line. An owner that ends with :s
-- shares the lock with others of its kind.
-- KEYS: 1 the lock, 2 its fence, 3 its line, 4 the client's session
-- ARGV: 1 the owner, 2 the session, 32 digits, 3 the owner's ticket, 16 digits, 4 ttl in
--   milliseconds, 5 whether it waits: 1 or 0, 6 whether it may stand in line already: 1 or 0
-- Replies: granted: its fence, 16 digits; granted, and an earlier ticket waits: {fence};
--   the key is another's, whatever its type: {the node's fence, ms left or -1, how many stand
--   before the owner or -1, 1 if the holder is another library's, else 0};
--   0 the session is not of today; an error OOM, if the server is full and the owner is new: one
--   that neither has the key nor stands in line
-- Tells holders with a later ticket: I, its fence, its owner, and in a last line the lock. Tells
--   those who come in with the owner: G, as release.lua does.
-- Idempotent: a second run finds the owner as holder, or in line.
local spoken = redis.call('GET', KEYS[4])
if not spoken or string.sub(spoken, 1, 32) ~= ARGV[2] then
  return 0
end
local mark = string.sub(ARGV[1], -2)
local is_alone = mark ~= ':s' and mark ~= ':r'
local taken = is_alone and redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[4])
if taken and taken.ok then
  local fence = ARGV[3]
  local stored = redis.call('SET', KEYS[2], fence, 'PX', '86400000', 'GET')
  local low, high = string.sub(spoken, 33, 48), string.sub(spoken, 49)
  -- With the time of its grant behind it the stored fence is no smaller: they can be compared.
  if fence > high or fence < low or stored and stored >= fence then
    -- The ticket counts for no more than the node's time allows, and the fence must grow.
    local known = stored and string.match(stored, '^(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)%d*$')
    local least = known and known + 1 or low
    fence = string.format('%016.0f', math.max(math.min(fence, high), least))
    redis.call('SET', KEYS[2], fence, 'PX', '86400000')
  end
  if ARGV[6] == '1' then
    redis.call('ZREM', KEYS[3], ARGV[1])
  end
  return fence
end

-- parts: order, shares, hold, fence, hand_on, full, hear

if is_alone then
  note_full(taken)
  if taken and not is_full(KEYS[4]) then
    return taken -- another error is no answer, and never a refusal
  end
end
return hear(
  KEYS[4], spoken, KEYS[1], KEYS[2], KEYS[3],
  ARGV[1], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6] == '1'
)
