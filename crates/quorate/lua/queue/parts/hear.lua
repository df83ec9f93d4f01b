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

-- Whether somebody waits who came before the owner, and cannot join it. An entry counts as early as
-- the first one of its identity here.
local function is_passed(lock, line, owner, now)
  local first = redis.call('ZRANGE', line, 0, 0)[1]
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

-- What is done for one who asks; see acquire.lua. An error is no answer, and never a refusal.
local function hear(session, spoken, lock, fence_key, line, owner, ticket, ttl, waits, is_known)
  local prefix = string.sub(session, 1, -43)
  local found = redis.pcall('GET', lock)
  local wanted = group(owner)
  local held, is_foreign, others = nil, true, {}
  local now
  if type(found) == 'table' then
    if not string.find(found.err, 'WRONGTYPE', 1, true) then
      return found
    end
    held = group_in(lock)
    now = now_ms()
  end

  if found == owner and not wanted then
    local fence = fence_in(redis.call('GET', fence_key)) or NO_FENCE
    if redis.call('PTTL', lock) < tonumber(ttl) then
      redis.call('PEXPIRE', lock, ttl)
    end
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    return first and is_before(first, found) and {fence} or fence
  end
  local is_joining = held and held == wanted
  local share = is_joining and redis.call('HGET', lock, owner)
  if is_alive(share, now) then
    prolong_share(lock, owner, share, ttl)
    local fence = is_entry(owner) and (fence_in(redis.call('GET', fence_key)) or NO_FENCE)
      or string.sub(share, 1, 16)
    return is_passed(lock, line, owner, now) and {fence} or fence
  end
  -- Whoever stands in line keeps its place on a full server, and gets the lock in its turn. Of one
  -- who shares and is new that need not be asked here, unless it finds a table that is not of its
  -- group: its own first write would fail.
  local is_first_write = wanted and not is_known and (is_joining or not held)
  local lacks_memory = not is_first_write and is_full(session)
    and not (is_known and redis.call('ZRANK', line, owner))
  if lacks_memory and waits then
    return FULL
  end

  local is_open = not found
  if is_joining and is_entry(owner) then
    is_open = true
  elseif is_joining then
    -- It may join them if nobody stands before it who wants the lock alone.
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if first and is_before(first, owner) then
      -- Behind what others are given its own write would not fail.
      lacks_memory = lacks_memory or not is_known and is_full(session)
      if lacks_memory and waits then
        return FULL
      end
      hand_on(prefix, lock, fence_key, line, held, owner)
      first = redis.call('ZRANGE', line, 0, 0)[1]
    end
    is_open = not first or not is_before(first, owner)
  elseif held and is_next(prefix, line, owner) then
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
    -- What an identity holds has one fence, however many entries it has.
    local fence = is_joining and is_entry(owner) and fence_in(redis.call('GET', fence_key))
      or bump(fence_key, ticket, spoken)
    if not wanted then
      redis.call('SET', lock, owner, 'PX', ttl)
      return fence
    end
    put_share(lock, owner, fence, ttl)
    -- Where many read and nobody writes, somebody has to see to those who are gone.
    if tonumber(string.sub(ticket, -2)) < 2 then
      purge(lock)
    end
    hand_on(prefix, lock, fence_key, line, wanted)
    -- To look at all entries with every one that joins would keep the server busy. One that needs
    -- to know whether somebody waits asks again.
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
  elseif held then
    is_foreign = false
    -- Several entries would join each other again and again: they hear of the owner with their
    -- heartbeats.
    local asked = held ~= ':s' and #others > 2 and {} or others
    for _, later in ipairs(later_ones(asked, owner)) do
      ask_back(prefix, later[1], string.sub(later[2], 1, 16), lock)
    end
  end
  local rank, left = redis.call('ZRANK', line, owner) or -1, redis.call('PTTL', lock)
  -- The first to go of those who share it may be gone without a word, and the others may give it
  -- back before its end. So may the one who wants it alone and stands before one who shares.
  for i = 2, #others, 2 do
    left = math.min(left, tonumber(string.sub(others[i], 17, 32)) - now)
  end
  local first = is_joining and redis.call('ZRANGE', line, 0, 0)[1]
  if first and first ~= owner then
    local client = string.match(first, '^q1:%d+:%d+:(%x+):')
    local lapses = client and redis.call('PTTL', prefix .. 's:' .. client) or -1
    left = lapses >= 0 and math.min(left, lapses) or left
  end
  return {fence, left, rank, is_foreign and 1 or 0}
end
