-- Leaves a lock that is shared, and grants the lock to the next waiters. `first` is a waiter that
-- was already removed from the queue.
local function release_with_waiters(
  prefix, lock, fence_key, queue, owner, yields, is_shared, is_ours, first
)
  local held
  if is_shared then
    held = group_in(lock)
    if not held then
      if not yields then
        redis.call('ZREM', queue, owner)
      end
      return 0
    end
    local share = redis.call('HGET', lock, owner)
    is_ours = is_alive(share, now_ms())
    if yields and not (is_ours and string.sub(share, 1, 16) == yields.fence) then
      return 0
    end
    redis.call('HDEL', lock, owner)
    if yields and yields.ticket then
      redis.call('ZADD', queue, yields.ticket, owner)
      if redis.call('PTTL', queue) < 2 * yields.ttl then
        redis.call('PEXPIRE', queue, 2 * yields.ttl)
      end
    elseif not is_ours then
      redis.call('ZREM', queue, owner)
    end
    local left = redis.call('HLEN', lock)
    -- Some of the other shares may have expired. If there are many, the next waiter removes them.
    if left == 0 or left <= 32 and not purge_shares(lock)[1] then
      held = nil
    end
  end
  hand_off(prefix, lock, fence_key, queue, held, nil, first)
  return is_ours and 1 or 0
end
