-- Lets each lease live on from now, and raises the node's fence to the lease's. A key that is lost
-- is taken again only by a holder, and only if nobody was granted it since; one that is shared, if
-- nobody has it alone. None is made to go earlier than it would: an order that comes late must not
-- undo a later one.
-- KEYS: 1 the client's session, then for each lock the lock, its fence, its line; 128 locks at most
-- ARGV: 1 the session, 32 digits, then for each lock its owner, the fence of the lease, 16 digits,
--   ttl in milliseconds, whether it may be taken again: 1 or 0
-- Replies: for each lock, lives on: the node's fence, 16 digits; not the owner's: {fence};
--   0 an error, which is no answer and never a refusal, and which leaves the others alone: also if
--   the server is full and would have to store a lease that it never had; in place of all that,
--   0 the session is not of today
-- Idempotent: a second run only counts the time anew.
local spoken = redis.call('GET', KEYS[1])
if not spoken or string.sub(spoken, 1, 32) ~= ARGV[1] then
  return 0
end

-- parts: shares, hold, fence, since, full

is_full(KEYS[1]) -- Before anything is written.

-- Lets a share live on, or takes a lost one again. Returns false if it is not the owner's, and
-- nothing if there is no memory for it.
local function extend_share(lock, owner, fence, ttl, line, may_heal, known)
  local kind = redis.call('TYPE', lock).ok
  local is_joining = kind == 'hash' and group_in(lock) == group(owner)
  local share = is_joining and redis.call('HGET', lock, owner)
  local is_past = is_entry(owner) and known and known > fence
  if is_alive(share, now_ms()) then
    prolong_share(lock, owner, share, ttl)
  elseif may_heal == '1' and (is_joining or kind == 'none' and not is_past) then
    if was_full and not (known and known >= fence) then
      return nil
    end
    redis.call('ZREM', line, owner)
    put_share(lock, owner, fence, ttl)
  else
    return false
  end
  return true
end

local fates = {}
for i = 1, (#KEYS - 1) / 3 do
  local lock, fence_key = KEYS[3 * i - 1], KEYS[3 * i]
  local owner, fence, ttl = ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i]
  local found = redis.call('MGET', lock, fence_key)
  local known = fence_in(found[2])
  local stored = known or NO_FENCE
  -- If the node knows the fence of the lease, it had its key before.
  local is_known = known and known >= fence
  local done
  if group(owner) then
    local is_done, is_kept =
      pcall(extend_share, lock, owner, fence, ttl, KEYS[3 * i + 1], ARGV[4 * i + 1], known)
    if not is_done or is_kept == nil then
      done = {err = ''}
    elseif not is_kept then
      fates[i] = {stored}
    end
  elseif found[1] == owner then
    -- In any case, and first: a script that has written may store also if the server is full.
    done = redis.pcall('PEXPIRE', lock, math.max(redis.call('PTTL', lock), tonumber(ttl)))
  elseif found[1] or ARGV[4 * i + 1] ~= '1' or stored > fence then
    fates[i] = {stored}
  elseif redis.call('EXISTS', lock) == 1 then
    fates[i] = {stored} -- what is not text is not told by MGET
  elseif was_full and not is_known then
    done = {err = ''}
  else
    -- In this order: a script that has written may store also if the server is full.
    done = redis.pcall('ZREM', KEYS[3 * i + 1], owner)
    if type(done) ~= 'table' then
      done = redis.pcall('SET', lock, owner, 'PX', ttl)
    end
  end
  if not fates[i] and (type(done) ~= 'table' or not done.err) then
    if is_known then
      local left = redis.call('PTTL', fence_key)
      if left <= 43200000 then
        local since = string.format('%016.0f', since_in(found[2], left))
        done = redis.pcall('SET', fence_key, stored .. since, 'PX', '86400000')
      end
    else
      stored = fence
      done = redis.pcall('SET', fence_key, stored, 'PX', '86400000')
    end
  end
  if not fates[i] then
    fates[i] = type(done) == 'table' and done.err and 0 or stored
  end
end
return fates
