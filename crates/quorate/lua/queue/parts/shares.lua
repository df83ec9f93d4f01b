-- A lock that is held together is a table: for each owner the fence of its grant, the last
-- millisecond in which that counts, and the one in which it was made, 16 digits each. The key lives
-- for as long as the last of them, or longer until somebody looks.
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- With whom an owner may hold a lock at the same time: readers with readers, and the entries of a
-- reentrant lock with those of their identity. Nothing, if it holds the lock alone. In classic mode
-- an owner can end with anything.
local function group(owner)
  if string.sub(owner, -2) == ':s' then
    return string.sub(owner, 1, 3) == 'q1:' and ':s' or nil
  end
  return string.match(owner, '^q1:.*(![^!]*):r$')
end

local function is_entry(owner)
  return string.sub(owner, -2) == ':r'
end

-- Of which group they are whose table a key that is no text is: other libraries have tables of
-- their own.
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
