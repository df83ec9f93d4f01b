-- Does for each owner what release.lua does for a single owner. The owners may have any clients.
-- KEYS: the locks, 32 at most, each of them once
-- ARGV: 1 the prefix of Quorate's keys, then for each lock its owner
-- Replies: the number of locks, if all owners held their locks; else a list with what release.lua
--   replies for each. An error in the list is not a refusal and does not affect the other locks
-- Pushes: as release.lua.
-- Idempotent: a second run finds nothing of these owners.

-- parts: entry_error, release_one

local prefix, total = ARGV[1], #KEYS
local found = redis.pcall('MGET', unpack(KEYS))
local deleted, queues, count = {}, {}, 0
for i = 1, total do
  queues[i] = prefix .. 'q:{' .. KEYS[i] .. '}'
  -- After an error each lock is read by itself.
  if not found.err and found[i] == ARGV[i + 1] then
    count = count + 1
    deleted[count] = KEYS[i]
  end
end
if count > 0 then
  local is_done = redis.pcall('DEL', unpack(deleted))
  if type(is_done) == 'table' then
    found, count = {err = ''}, 0
  end
end
if count == total and redis.pcall('EXISTS', unpack(queues)) == 0 then
  return total
end
local replies = {}
for i = 1, total do
  local is_deleted = not found.err and found[i] == ARGV[i + 1]
  local is_done, reply = pcall(
    release_one, prefix, KEYS[i], prefix .. 'f:{' .. KEYS[i] .. '}', queues[i], ARGV[i + 1], nil,
    is_deleted
  )
  replies[i] = is_done and reply or entry_error(reply)
end
return replies
