-- Does for each owner of one client what acquire.lua does for a single owner, in order.
-- KEYS: 1 the client's session, then for each owner the lock; 128 at most
-- ARGV: 1 the session, 32 digits, 2 the ttl in milliseconds that all owners have, or nothing if
--   they have different ones, 3 for each owner a digit: 1 if it is to be queued, plus 2 if it may
--   be queued already, then the owners
-- Replies: the number of owners, if all were granted the lock with their tickets as fences; else a
--   list with, for each owner, 1 if it was granted the lock so, or what acquire.lua replies. An
--   error in the list is not a refusal and does not affect the other owners. 0 instead of the list:
--   the session is stale
-- Pushes: as acquire.lua.
-- Idempotent: a second run finds the owners as holders or waiters.
local session = redis.call('GET', KEYS[1])
if not session or string.sub(session, 1, 32) ~= ARGV[1] then
  return 0
end
local call, pcall_command, sub, byte = redis.call, redis.pcall, string.sub, string.byte
local prefix = sub(KEYS[1], 1, -43)
local ticket_min, ticket_max = sub(session, 33, 48), sub(session, 49)
local common_ttl, flags = ARGV[2] ~= '' and ARGV[2], ARGV[3]
local total = #KEYS - 1
local replies

-- parts: full, entry_error

local acquire_slowly
local function slowly(lock, owner, ttl, flag)
  if not acquire_slowly then
    -- Most calls need none of this.
    acquire_slowly = (function()
-- parts: order, shares, put_share, fence, hand_off, acquire_one
      return acquire_one
    end)()
  end
  local is_done, reply = pcall(
    acquire_slowly, KEYS[1], session, lock, prefix .. 'f:{' .. lock .. '}',
    prefix .. 'q:{' .. lock .. '}', owner, sub(owner, 4, 19), ttl, flag % 2 == 1, flag >= 50
  )
  return is_done and reply or entry_error(reply)
end

for i = 1, total do
  local lock, owner, flag = KEYS[i + 1], ARGV[i + 3], byte(flags, i)
  local ttl = common_ttl or string.match(owner, '^q1:%d+:(%d+):')
  local colon, kind = byte(owner, -2, -1)
  local is_new = flag < 50 and not (colon == 58 and (kind == 114 or kind == 115)) -- not :r or :s
  if i == 1 and not is_new then
    is_full(KEYS[1]) -- before the first write, after which a full server would store new owners
  end
  -- A waiter that may be queued already usually finds the lock held.
  local stored_key = is_new and not was_full and pcall_command('SET', lock, owner, 'NX', 'PX', ttl)
  if i == 1 and is_new then
    record_full(stored_key)
  end
  local reply
  if stored_key and stored_key.ok then
    local fence, fence_key = sub(owner, 4, 19), prefix .. 'f:{' .. lock .. '}'
    local last = pcall_command('SET', fence_key, fence, 'PX', '86400000', 'GET')
    -- As texts, a record with the time of its grant is greater than its fence alone.
    if type(last) == 'table' then
      reply = last
    elseif fence > ticket_max or fence < ticket_min or last and last >= fence then
      -- The node's time limits the ticket, and fences must grow.
      local known = last and string.match(last, '^(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)%d*$')
      local least = known and known + 1 or ticket_min
      fence = string.format('%016.0f', math.max(math.min(fence, ticket_max), least))
      call('SET', fence_key, fence, 'PX', '86400000')
      reply = fence
    end
  elseif stored_key and not was_full then
    reply = stored_key -- an error is not a refusal
  else
    reply = slowly(lock, owner, ttl, flag)
  end
  if reply and not replies then
    replies = {}
    for earlier = 1, i - 1 do
      replies[earlier] = 1
    end
  end
  if replies then
    replies[i] = reply or 1
  end
end
return replies or total
