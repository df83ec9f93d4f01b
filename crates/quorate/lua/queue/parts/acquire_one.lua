local function push_inquired(prefix, owner, fence, lock)
  local client = string.match(owner, '^q1:%d+:%d+:(%x+):')
  redis.call('PUBLISH', prefix .. 'c:' .. client, 'I ' .. fence .. ' ' .. owner .. '\n' .. lock)
end

-- The holders with a later ticket than the owner, in the order of their tickets.
local function later_holders(holders, owner)
  local later = {}
  for i = 1, #holders, 2 do
    if is_before(owner, holders[i]) then
      later[#later + 1] = {holders[i], holders[i + 1]}
    end
  end
  table.sort(later, function(one, other)
    return is_before(one[1], other[1])
  end)
  return later
end

-- Whether no other waiter is queued before the owner. Removes waiters without a session that are
-- queued before it. Only the next waiter removes expired shares and sends inquiries: if all waiters
-- did, they would keep the server busy.
local function is_next(prefix, queue, owner)
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first or not is_before(first, owner) then
      return true
    end
    local client = string.match(first, '^q1:%d+:%d+:(%x+):')
    if client and redis.call('EXISTS', prefix .. 's:' .. client) == 1 then
      return false
    end
    redis.call('ZREM', queue, first)
  end
end

-- Whether the first waiter has an earlier ticket than the owner and cannot share the lock with it.
-- An entry counts with the earliest ticket of its identity on this node.
local function is_waiter_earlier(lock, queue, owner, now)
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if not first or group(first) == group(owner) or not is_before(first, owner) then
    return false
  end
  local all = is_entry(owner) and redis.call('HGETALL', lock) or {}
  for i = 1, #all, 2 do
    if is_alive(all[i + 1], now) and not is_before(first, all[i]) then
      return false
    end
  end
  return true
end

-- Executes the request of one owner; see acquire.lua. An error is not a refusal.
local function acquire_one(
  session_key, session, lock, fence_key, queue, owner, ticket, ttl, is_waiting, is_known
)
  local prefix = string.sub(session_key, 1, -43)
  local value = redis.pcall('GET', lock)
  local wanted = group(owner)
  local held, is_foreign, holders = nil, true, {}
  local now
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then
      return value
    end
    held = group_in(lock)
    now = now_ms()
  end

  if value == owner and not wanted then
    local fence = fence_in(redis.call('GET', fence_key)) or NO_FENCE
    if redis.call('PTTL', lock) < tonumber(ttl) then
      redis.call('PEXPIRE', lock, ttl)
    end
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    return first and is_before(first, value) and {fence} or fence
  end
  local is_joining = held and held == wanted
  local share = is_joining and redis.call('HGET', lock, owner)
  if is_alive(share, now) then
    lengthen_share(lock, owner, share, ttl)
    local fence = is_entry(owner) and (fence_in(redis.call('GET', fence_key)) or NO_FENCE)
      or string.sub(share, 1, 16)
    return is_waiter_earlier(lock, queue, owner, now) and {fence} or fence
  end
  -- On a full server a waiter keeps its position, and gets the lock in FIFO order. A new reader or
  -- entry that comes first is not checked here if the key is free or held by its group: then its
  -- own first write would fail.
  local is_first_write = not was_checked and wanted and not is_known and (is_joining or not held)
  local lacks_memory = not is_first_write and is_full(session_key)
    and not (is_known and redis.call('ZRANK', queue, owner))
  if lacks_memory and is_waiting then
    return FULL
  end

  local is_open = not value
  if is_joining and is_entry(owner) then
    is_open = true
  elseif is_joining then
    -- A reader may join unless an exclusive waiter is queued before it.
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if first and is_before(first, owner) then
      -- After the writes of the hand-off, its own write would not fail on a full server.
      lacks_memory = lacks_memory or not is_known and is_full(session_key)
      if lacks_memory and is_waiting then
        return FULL
      end
      hand_off(prefix, lock, fence_key, queue, held, owner)
      first = redis.call('ZRANGE', queue, 0, 0)[1]
    end
    is_open = not first or not is_before(first, owner)
  elseif held and is_next(prefix, queue, owner) then
    holders = purge_shares(lock)
    is_open = not holders[1]
  end
  if is_open then
    if lacks_memory then
      return FULL
    end
    if is_known then
      redis.call('ZREM', queue, owner)
    end
    -- All entries of an identity that hold the lock have the same fence.
    local fence = is_joining and is_entry(owner) and fence_in(redis.call('GET', fence_key))
      or bump_fence(fence_key, ticket, session)
    if not wanted then
      redis.call('SET', lock, owner, 'PX', ttl)
      return fence
    end
    put_share(lock, owner, fence, ttl)
    -- Without writers nothing else would remove expired shares, so two of a hundred readers do.
    if tonumber(string.sub(ticket, -2)) < 2 then
      purge_shares(lock)
    end
    hand_off(prefix, lock, fence_key, queue, wanted)
    -- The reply to a join does not report whether an earlier waiter is queued: to read all entries
    -- each time would keep the server busy. A repeated request reports it.
    return fence
  end

  local fence = fence_in(redis.call('GET', fence_key)) or NO_FENCE
  if is_waiting then
    -- On a full server only owners that are queued already come here.
    if not was_full then
      redis.call('ZADD', queue, ticket, owner)
    end
    if redis.call('PTTL', queue) < 2 * ttl then
      redis.call('PEXPIRE', queue, 2 * ttl)
    end
  end
  if type(value) ~= 'table' then
    local number, holder = string.match(value, '^q1:(%d+):%d+:([0-9a-f]+):')
    is_foreign = not number or #number ~= 16 or #holder ~= 40
    if not is_foreign and is_before(owner, value) then
      push_inquired(prefix, value, fence, lock)
    end
  elseif held then
    is_foreign = false
    -- Several entries would give way and join each other again and again. The replies to their
    -- heartbeats report the waiter instead.
    local inquired = held ~= ':s' and #holders > 2 and {} or holders
    for _, later in ipairs(later_holders(inquired, owner)) do
      push_inquired(prefix, later[1], string.sub(later[2], 1, 16), lock)
    end
  end
  local rank, left = redis.call('ZRANK', queue, owner) or -1, redis.call('PTTL', lock)
  -- The holder whose share ends first may have crashed, and the others may release the lock before
  -- that end.
  for i = 2, #holders, 2 do
    left = math.min(left, tonumber(string.sub(holders[i], 17, 32)) - now)
  end
  -- The exclusive waiter that is queued before a reader may have crashed.
  local first = is_joining and redis.call('ZRANGE', queue, 0, 0)[1]
  if first and first ~= owner then
    local client = string.match(first, '^q1:%d+:%d+:(%x+):')
    local session_left = client and redis.call('PTTL', prefix .. 's:' .. client) or -1
    left = session_left >= 0 and math.min(left, session_left) or left
  end
  return {fence, left, rank, is_foreign and 1 or 0}
end
