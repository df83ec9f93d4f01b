-- The first `most` holders of a shared lock in the order of their tickets. Each owner is followed
-- by the milliseconds since its grant and the milliseconds left.
local function list_holders(lock, now, most)
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
