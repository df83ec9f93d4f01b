-- When a lock was granted, in milliseconds of the node's time. `left` is the ttl of the record in
-- milliseconds. A grant stores its fence for a day, so the remaining ttl shows when that was: to
-- ask for the time with every grant would cost a quarter more. An extension that keeps the record
-- for another day appends the time of the grant, 16 digits.
local function since_in(record, left)
  return tonumber(string.sub(record, 17, 32)) or now_ms() + left - 86400000
end
