-- Keeps each lease for another ttl, and raises the node's fence to that of the lease. A key that is
-- gone is stored again if the sender permits it and no other owner was granted the lock since; a
-- share, if no exclusive owner holds the lock. No key or share is made to expire earlier: a request
-- that is delayed must not undo a later one.
-- KEYS: 1 the client's session, then for each lock the lock, its fence, its queue; 128 at most
-- ARGV: 1 the session, 32 digits, then for each lock its owner, the fence of the lease, 16 digits,
--   ttl in milliseconds, 1 if the node may store a lost key again, else 0
-- Replies: for each lock, extended: the node's fence, 16 digits; refused: {fence};
--   0 an error, which is not a refusal and does not affect the other locks, even if the server is
--   full and would have to store a lease that is new to it; or instead of the list, 0 the session
--   is stale, or the number of locks: each is extended, and has the fence of its lease
-- Idempotent: a second run only counts the ttl from a later time.
local session = redis.call('GET', KEYS[1])
if not session or string.sub(session, 1, 32) ~= ARGV[1] then
  return 0
end

-- parts: shares, put_share, fence, since, full

is_full(KEYS[1]) -- before the first write, after which a full server would store new leases

-- Extends or heals a share. Returns false if it cannot, and nothing if the server is full.
local function extend_share(lock, owner, fence, ttl, queue, may_heal, known)
  local kind = redis.call('TYPE', lock).ok
  local is_joining = kind == 'hash' and group_in(lock) == group(owner)
  local share = is_joining and redis.call('HGET', lock, owner)
  local is_outdated = is_entry(owner) and known and known > fence
  if is_alive(share, now_ms()) then
    lengthen_share(lock, owner, share, ttl)
  elseif may_heal == '1' and (is_joining or kind == 'none' and not is_outdated) then
    if was_full and not (known and known >= fence) then
      return nil
    end
    redis.call('ZREM', queue, owner)
    put_share(lock, owner, fence, ttl)
  else
    return false
  end
  return true
end

local replies, is_usual = {}, true
for i = 1, (#KEYS - 1) / 3 do
  local lock, fence_key = KEYS[3 * i - 1], KEYS[3 * i]
  local owner, fence, ttl = ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i]
  local found = redis.call('MGET', lock, fence_key)
  local known = fence_in(found[2])
  local stored = known or NO_FENCE
  -- If the node has the fence of the lease, it had the key before.
  local has_fence = known and known >= fence
  local done
  if group(owner) then
    local is_done, is_extended =
      pcall(extend_share, lock, owner, fence, ttl, KEYS[3 * i + 1], ARGV[4 * i + 1], known)
    if not is_done or is_extended == nil then
      done = {err = ''}
    elseif not is_extended then
      replies[i] = {stored}
    end
  elseif found[1] == owner then
    -- Even if it changes nothing, and first: after any write, a full server lets the script store.
    done = redis.pcall('PEXPIRE', lock, math.max(redis.call('PTTL', lock), tonumber(ttl)))
  elseif found[1] or ARGV[4 * i + 1] ~= '1' or stored > fence then
    replies[i] = {stored}
  elseif redis.call('EXISTS', lock) == 1 then
    replies[i] = {stored} -- MGET returns nothing for a key that is not a text
  elseif was_full and not has_fence then
    done = {err = ''}
  else
    -- In this order: after any write, a full server lets the script store.
    done = redis.pcall('ZREM', KEYS[3 * i + 1], owner)
    if type(done) ~= 'table' then
      done = redis.pcall('SET', lock, owner, 'PX', ttl)
    end
  end
  if not replies[i] and (type(done) ~= 'table' or not done.err) then
    if has_fence then
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
  if not replies[i] then
    replies[i] = type(done) == 'table' and done.err and 0 or stored
  end
  is_usual = is_usual and replies[i] == fence
end
return is_usual and #replies or replies
