-- Those who hold a lock together: the first of them, in the order of their tickets, each followed
-- by the milliseconds since it has it, and those that are left.
local function told(lock, now, most)
  local all, owners, shares = redis.call('HGETALL', lock), {}, {}
  for i = 1, #all, 2 do
    if is_alive(all[i + 1], now) then
      owners[#owners + 1] = all[i]
      shares[all[i]] = all[i + 1]
    end
  end
  table.sort(owners, is_before)
  local list = {}
  for i = 1, math.min(#owners, most) do
    local share = shares[owners[i]]
    list[#list + 1] = owners[i]
    list[#list + 1] = math.max(now - string.sub(share, 33), 0)
    list[#list + 1] = string.sub(share, 17, 32) - now
  end
  return list
end
