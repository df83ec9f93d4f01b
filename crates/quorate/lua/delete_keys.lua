-- Does for each lock what delete_key.lua does for a single one.
-- KEYS: the locks, 32 at most, each of them once
-- ARGV: for each lock its owner
-- Replies: the number of locks, if all were deleted; else a list with what delete_key.lua replies
--   for each. An error in the list is not a refusal and does not affect the other locks
-- Idempotent: a second run finds nothing of these owners.
local total, deleted, count = #KEYS, {}, 0
local found = redis.pcall('MGET', unpack(KEYS))
for i = 1, total do
  -- After an error each lock is read by itself.
  if not found.err and found[i] == ARGV[i] then
    count = count + 1
    deleted[count] = KEYS[i]
  end
end
if count > 0 then
  local is_done = redis.pcall('DEL', unpack(deleted))
  if is_done == total then
    return total
  elseif type(is_done) == 'table' then
    found = {err = ''}
  end
end
local replies = {}
for i = 1, total do
  if not found.err and found[i] == ARGV[i] then
    replies[i] = 1
  else
    local value = redis.pcall('GET', KEYS[i])
    if value == ARGV[i] then
      replies[i] = redis.pcall('DEL', KEYS[i])
    elseif not value then
      replies[i] = 0
    elseif type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
      replies[i] = value -- an error is not a refusal
    else
      replies[i] = -1
    end
  end
end
return replies
