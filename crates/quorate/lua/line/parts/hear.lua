local function ask_back(prefix, owner, fence, lock)
  local client = string.match(owner, '^q1:%d+:%d+:(%x+):')
  redis.call('PUBLISH', prefix .. 'c:' .. client, 'I ' .. fence .. ' ' .. owner .. '\n' .. lock)
end

-- Those who came later than the owner, in their order.
local function later_ones(others, owner)
  local later = {}
  for i = 1, #others, 2 do
    if is_before(owner, others[i]) then
      later[#later + 1] = {others[i], others[i + 1]}
    end
  end
  table.sort(later, function(one, other)
    return is_before(one[1], other[1])
  end)
  return later
end

-- Whether one who wants the lock alone is the next to have it: then it looks whether those who
-- share it are there still, and asks later ones to give it back. For everybody to do so would keep
-- the server busy. Those in line who are gone are thrown out.
local function is_next(prefix, line, owner)
  while true do
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first or not is_before(first, owner) then
      return true
    end
    local client = string.match(first, '^q1:%d+:%d+:(%x+):')
    if client and redis.call('EXISTS', prefix .. 's:' .. client) == 1 then
      return false
    end
    redis.call('ZREM', line, first)
  end
end

-- What is done for one who asks; see acquire.lua. An error is no answer, and never a refusal.
local function hear(session, spoken, lock, fence_key, line, owner, ticket, ttl, waits, is_known)
  local prefix = string.sub(session, 1, -43)
  local found = redis.pcall('GET', lock)
  local is_table, is_foreign, others = false, true, {}
  local now
  if type(found) == 'table' then
    if not string.find(found.err, 'WRONGTYPE', 1, true) then
      return found
    end
    is_table = is_held_together(lock)
    now = now_ms()
  end

  if found == owner and not is_sharing(owner) then
    local fence = fence_in(redis.call('GET', fence_key)) or NO_FENCE
    if redis.call('PTTL', lock) < tonumber(ttl) then
      redis.call('PEXPIRE', lock, ttl)
    end
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    return first and is_before(first, found) and {fence} or fence
  end
  local share = is_sharing(owner) and is_table and redis.call('HGET', lock, owner)
  if is_alive(share, now) then
    prolong_share(lock, owner, share, ttl)
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    local fence = string.sub(share, 1, 16)
    return first and not is_sharing(first) and is_before(first, owner) and {fence} or fence
  end
  -- Whoever stands in line keeps its place on a full server, and gets the lock in its turn. Of one
  -- who shares and is new that need not be asked here: its own first write would fail.
  local lacks_memory = (is_known or not is_sharing(owner)) and is_full(session)
    and not (is_known and redis.call('ZRANK', line, owner))
  if lacks_memory and waits then
    return FULL
  end

  local is_open = not found
  if is_sharing(owner) and is_table then
    -- It may join them if nobody stands before it who wants the lock alone.
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if first and is_before(first, owner) then
      -- Behind what others are given its own write would not fail.
      lacks_memory = lacks_memory or not is_known and is_full(session)
      if lacks_memory and waits then
        return FULL
      end
      hand_on(prefix, lock, fence_key, line, true, owner)
      first = redis.call('ZRANGE', line, 0, 0)[1]
    end
    is_open = not first or not is_before(first, owner)
  elseif is_table and is_next(prefix, line, owner) then
    others = purge(lock)
    is_open = not others[1]
  end
  if is_open then
    if lacks_memory then
      return FULL
    end
    if is_known then
      redis.call('ZREM', line, owner)
    end
    local fence = bump(fence_key, ticket, spoken)
    if is_sharing(owner) then
      put_share(lock, owner, fence, ttl)
      -- Where many read and nobody writes, somebody has to see to those who are gone.
      if tonumber(string.sub(ticket, -2)) < 2 then
        purge(lock)
      end
      hand_on(prefix, lock, fence_key, line, true)
    else
      redis.call('SET', lock, owner, 'PX', ttl)
    end
    return fence
  end

  local fence = fence_in(redis.call('GET', fence_key)) or NO_FENCE
  if waits then
    -- On a full server it is there already.
    if not was_full then
      redis.call('ZADD', line, ticket, owner)
    end
    if redis.call('PTTL', line) < 2 * ttl then
      redis.call('PEXPIRE', line, 2 * ttl)
    end
  end
  if type(found) ~= 'table' then
    local number, holder = string.match(found, '^q1:(%d+):%d+:([0-9a-f]+):')
    is_foreign = not number or #number ~= 16 or #holder ~= 40
    if not is_foreign and is_before(owner, found) then
      ask_back(prefix, found, fence, lock)
    end
  elseif is_table then
    is_foreign = false
    for _, later in ipairs(later_ones(others, owner)) do
      ask_back(prefix, later[1], string.sub(later[2], 1, 16), lock)
    end
  end
  local rank, left = redis.call('ZRANK', line, owner) or -1, redis.call('PTTL', lock)
  -- The first to go of those who share it may be gone without a word, and the others may give it
  -- back before its end. So may the one who wants it alone and stands before one who shares.
  for i = 2, #others, 2 do
    left = math.min(left, tonumber(string.sub(others[i], 17, 32)) - now)
  end
  local first = is_table and is_sharing(owner) and redis.call('ZRANGE', line, 0, 0)[1]
  if first and first ~= owner then
    local client = string.match(first, '^q1:%d+:%d+:(%x+):')
    local lapses = client and redis.call('PTTL', prefix .. 's:' .. client) or -1
    left = lapses >= 0 and math.min(left, lapses) or left
  end
  return {fence, left, rank, is_foreign and 1 or 0}
end
