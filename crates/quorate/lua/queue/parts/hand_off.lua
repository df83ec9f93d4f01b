-- Removes expired shares, and the key with the last of them. Returns the other owners. Each is
-- followed by its share.
local function purge_shares(lock)
  local now, last, alive = now_ms(), 0, {}
  local all = redis.call('HGETALL', lock)
  for i = 1, #all, 2 do
    if is_alive(all[i + 1], now) then
      last = math.max(last, tonumber(string.sub(all[i + 1], 17, 32)))
      alive[#alive + 1], alive[#alive + 2] = all[i], all[i + 1]
    else
      redis.call('HDEL', lock, all[i])
    end
  end
  if alive[1] then
    -- The server deletes a key immediately if its end is not in the future.
    redis.call('PEXPIREAT', lock, string.format('%.0f', math.max(last, now + 1)))
  end
  return alive
end

-- Stores and returns the fence of a new grant.
local function bump_fence(fence_key, ticket, session)
  local fence = ticket
  local last = redis.call('SET', fence_key, fence, 'PX', '86400000', 'GET')
  local ticket_min, ticket_max = string.sub(session, 33, 48), string.sub(session, 49)
  -- As texts, a record with the time of its grant is greater than its fence alone.
  if fence > ticket_max or last and last >= fence or fence < ticket_min and not fence_in(last) then
    -- The node's time limits the ticket, and fences must grow.
    local known = fence_in(last)
    local least = known and known + 1 or ticket_min
    fence = string.format('%016.0f', math.max(math.min(fence, ticket_max), least))
    redis.call('SET', fence_key, fence, 'PX', '86400000')
  end
  return fence
end

-- Notifies a waiter's client of its grant. Returns false if the client is not subscribed.
local function push_granted(prefix, client, lock, fence, session, owner)
  local text = 'G ' .. fence .. ' ' .. string.sub(session, 1, 32) .. ' ' .. owner .. '\n' .. lock
  return redis.call('PUBLISH', prefix .. 'c:' .. client, text) > 0
end

-- Grants the lock to the waiting entries of the identity that holds it now. Entries far back in the
-- queue join with their next heartbeat.
local function grant_waiting_entries(prefix, lock, queue, fence, identity)
  for _, owner in ipairs(redis.call('ZRANGE', queue, 0, 127)) do
    local ttl, client = string.match(owner, '^q1:%d+:(%d+):(%x+):')
    local session = group(owner) == identity and redis.call('GET', prefix .. 's:' .. client)
    if session and push_granted(prefix, client, lock, fence, session, owner) then
      redis.call('ZREM', queue, owner)
      put_share(lock, owner, fence, ttl)
    end
  end
end

-- Grants a free key to the first waiter whose client has a session and is subscribed. If this is a
-- reader, the readers behind it join, up to the first exclusive waiter. If `held` names the group
-- that holds the key, its members at the head of the queue join in the same way. With `before`,
-- only waiters before that owner are granted the lock. `first` is a waiter that was already removed
-- from the queue.
local function hand_off(prefix, lock, fence_key, queue, held, before, first)
  while true do
    if held then
      first = redis.call('ZRANGE', queue, 0, 0)[1]
    else
      first = first or redis.call('ZPOPMIN', queue)[1]
    end
    if not first or before and not is_before(first, before) then
      return
    end
    local ticket, ttl, client = string.match(first, '^q1:(%d+):(%d+):(%x+):')
    local session = client and redis.call('GET', prefix .. 's:' .. client)
    local wanted = group(first)
    if held then
      if session and wanted ~= held then
        return
      end
      redis.call('ZREM', queue, first)
    end
    if session then
      -- All entries of an identity that hold the lock have the same fence.
      local is_joining = held and is_entry(first)
      local fence = is_joining and fence_in(redis.call('GET', fence_key))
        or bump_fence(fence_key, ticket, session)
      if push_granted(prefix, client, lock, fence, session, first) then
        if not wanted then
          redis.call('SET', lock, first, 'PX', ttl)
          return
        end
        put_share(lock, first, fence, ttl)
        held = wanted
        if is_entry(first) then
          return grant_waiting_entries(prefix, lock, queue, fence, wanted)
        end
      end
    end
    first = nil
  end
end
