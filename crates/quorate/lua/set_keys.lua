-- Does for each lock what set_key.lua does for a single one, in classic mode with quarantine.
-- KEYS: 1 the client's session, then the locks, 32 at most
-- ARGV: 1 the session, 32 digits, 2 the ttl in milliseconds that all owners have, or nothing if
--   they have different ones, then the owners; with different ttls, then the ttl of each
-- Replies: the number of locks, if all owners were stored; else a list with, for each lock, 1
--   stored, 0 there is a key, of any type. An error in the list is not a refusal and does not
--   affect the other locks. 0 instead of the list: the session is stale
local session = redis.call('GET', KEYS[1])
if not session or string.sub(session, 1, 32) ~= ARGV[1] then
  return 0
end
local call, ttl, total = redis.pcall, ARGV[2] ~= '' and ARGV[2], #KEYS - 1
local replies
for i = 1, total do
  -- A full server rejects each of them: the script writes nothing else.
  local stored = call('SET', KEYS[i + 1], ARGV[i + 2], 'NX', 'PX', ttl or ARGV[i + 2 + total])
  if not replies and not (stored and stored.ok) then
    replies = {}
    for earlier = 1, i - 1 do
      replies[earlier] = 1
    end
  end
  if replies then
    replies[i] = stored and (stored.ok and 1 or stored) or 0
  end
end
return replies or total
