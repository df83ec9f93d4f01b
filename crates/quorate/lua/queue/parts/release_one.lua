local release_with_waiters

-- Releases the lock, and grants it to the next waiter; see release.lua. With `is_deleted` the key
-- was the owner's, and is deleted already.
local function release_one(prefix, lock, fence_key, queue, owner, yields, is_deleted)
  local value = is_deleted and owner or redis.pcall('GET', lock)
  local is_ours, first = value == owner, nil
  if is_ours then
    local record = yields and (redis.call('GET', fence_key) or '0000000000000000')
    if record and string.sub(record, 1, 16) ~= yields.fence then
      return 0
    end
    -- First: after any write, a full server lets the script store.
    if not is_deleted then
      redis.call('DEL', lock)
    end
    if yields and yields.ticket then
      redis.call('ZADD', queue, yields.ticket, owner)
      if redis.call('PTTL', queue) < 2 * yields.ttl then
        redis.call('PEXPIRE', queue, 2 * yields.ttl)
      end
    end
  elseif not value or type(value) ~= 'table' then
    if yields then
      return 0
    end
    redis.call('ZREM', queue, owner)
    if value then
      return 0
    end
  elseif not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- an error is not a refusal
  end
  local is_shared = type(value) == 'table'
  if not is_shared then
    first = redis.call('ZPOPMIN', queue)[1]
    if not first then
      return is_ours and 1 or 0
    end
  end
  if not release_with_waiters then
    -- Most calls need none of this.
    release_with_waiters = (function()
-- parts: order, shares, put_share, fence, hand_off, release_with_waiters
      return release_with_waiters
    end)()
  end
  return release_with_waiters(
    prefix, lock, fence_key, queue, owner, yields, is_shared, is_ours, first
  )
end
