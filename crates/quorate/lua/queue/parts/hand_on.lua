-- Throws out those whose time is over; the key goes with the last of them. Returns the others, each
-- followed by its share.
local function purge(lock)
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
    -- What is to go at once would be deleted.
    redis.call('PEXPIREAT', lock, string.format('%.0f', math.max(last, now + 1)))
  end
  return alive
end

local function bump(fence_key, ticket, spoken)
  local fence = ticket
  local stored = redis.call('SET', fence_key, fence, 'PX', '86400000', 'GET')
  local low, high = string.sub(spoken, 33, 48), string.sub(spoken, 49)
  -- With the time of its grant behind it the stored fence is no smaller: they can be compared.
  if fence > high or stored and stored >= fence or fence < low and not fence_in(stored) then
    -- The ticket counts for no more than the node's time allows, and the fence must grow.
    local known = fence_in(stored)
    local least = known and known + 1 or low
    fence = string.format('%016.0f', math.max(math.min(fence, high), least))
    redis.call('SET', fence_key, fence, 'PX', '86400000')
  end
  return fence
end

-- Tells a client that its turn has come. Returns whether anybody listens.
local function tell_granted(prefix, client, lock, fence, spoken, owner)
  local news = 'G ' .. fence .. ' ' .. string.sub(spoken, 1, 32) .. ' ' .. owner .. '\n' .. lock
  return redis.call('PUBLISH', prefix .. 'c:' .. client, news) > 0
end

-- Lets in the entries that wait for what their identity holds now. Those far behind join with
-- their next heartbeat.
local function admit_entries(prefix, lock, line, fence, identity)
  for _, owner in ipairs(redis.call('ZRANGE', line, 0, 127)) do
    local ttl, client = string.match(owner, '^q1:%d+:(%d+):(%x+):')
    local spoken = group(owner) == identity and redis.call('GET', prefix .. 's:' .. client)
    if spoken and tell_granted(prefix, client, lock, fence, spoken, owner) then
      redis.call('ZREM', line, owner)
      put_share(lock, owner, fence, ttl)
    end
  end
end

-- Gives a key that is free to the first in line whose process is there and listens. If that one
-- shares it, so do those behind it, up to the first who wants it alone; and so it is with a key
-- that a group shares already: `held` names it. Nobody gets it who does not stand before `before`,
-- if that is given; `first` is out of the line already.
local function hand_on(prefix, lock, fence_key, line, held, before, first)
  while true do
    if held then
      first = redis.call('ZRANGE', line, 0, 0)[1]
    else
      first = first or redis.call('ZPOPMIN', line)[1]
    end
    if not first or before and not is_before(first, before) then
      return
    end
    local ticket, ttl, client = string.match(first, '^q1:(%d+):(%d+):(%x+):')
    local spoken = client and redis.call('GET', prefix .. 's:' .. client)
    local wanted = group(first)
    if held then
      if spoken and wanted ~= held then
        return
      end
      redis.call('ZREM', line, first)
    end
    if spoken then
      -- What an identity holds has one fence, however many entries it has.
      local is_joining = held and is_entry(first)
      local fence = is_joining and fence_in(redis.call('GET', fence_key))
        or bump(fence_key, ticket, spoken)
      if tell_granted(prefix, client, lock, fence, spoken, first) then
        if not wanted then
          redis.call('SET', lock, first, 'PX', ttl)
          return
        end
        put_share(lock, first, fence, ttl)
        held = wanted
        if is_entry(first) then
          return admit_entries(prefix, lock, line, fence, wanted)
        end
      end
    end
    first = nil
  end
end
