-- The key of a lock with several holders is a hash. For each owner it contains a share: the fence
-- of the grant, the last millisecond in which the grant counts, and the millisecond in which it was
-- made, 16 digits each. The key exists until its last share has expired, or until a later command
-- removes the expired shares.
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- The owners with which an owner can share the lock: readers share with readers, and the entries of
-- a reentrant lock with entries of the same identity. Nothing for an exclusive owner. In classic
-- mode an owner can have any ending.
local function group(owner)
  if string.sub(owner, -2) == ':s' then
    return string.sub(owner, 1, 3) == 'q1:' and ':s' or nil
  end
  return string.match(owner, '^q1:.*(![^!]*):r$')
end

local function is_entry(owner)
  return string.sub(owner, -2) == ':r'
end

-- The group that holds the lock. Nothing if the key is not a hash of shares: other libraries have
-- hashes of their own.
local function group_in(lock)
  if redis.call('TYPE', lock).ok ~= 'hash' then
    return nil
  end
  local owner = redis.call('HRANDFIELD', lock)
  local ticket, client = string.match(owner, '^q1:(%d+):%d+:(%x+):')
  return ticket and #ticket == 16 and #client == 40 and group(owner) or nil
end

local function is_alive(share, now)
  return share and tonumber(string.sub(share, 17, 32)) >= now
end
