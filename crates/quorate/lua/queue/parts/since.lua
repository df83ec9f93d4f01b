-- When a lock was granted, in milliseconds of the node's time, if so many are left of the record.
-- To ask for the time with every grant would cost a quarter more. A grant stores its fence for a
-- day, so what is left of that tells when it was. The extension that gives the record another day
-- writes that behind the fence, 16 digits.
local function since_in(record, left)
  return tonumber(string.sub(record, 17, 32)) or now_ms() + left - 86400000
end
