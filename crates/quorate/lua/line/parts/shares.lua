-- A lock that is held together is a table: for each owner the fence of its grant, the last
-- millisecond in which that counts, and the one in which it was made, 16 digits each. The key lives
-- for as long as the last of them, or longer until somebody looks.
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

local function is_sharing(owner)
  -- In classic mode an owner can end with anything.
  return string.sub(owner, -2) == ':s' and string.sub(owner, 1, 3) == 'q1:'
end

-- Whether a key that is no text is such a table: other libraries have tables of their own.
local function is_held_together(lock)
  if redis.call('TYPE', lock).ok ~= 'hash' then
    return false
  end
  local ticket, client = string.match(redis.call('HRANDFIELD', lock), '^q1:(%d+):%d+:(%x+):.*:s$')
  return ticket and #ticket == 16 and #client == 40 or false
end

local function is_alive(share, now)
  return share and tonumber(string.sub(share, 17, 32)) >= now
end
