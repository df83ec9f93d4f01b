-- The record of the last grant of a lock: its fence, 16 digits, and if an extension has written it,
-- the time of the grant; see since.lua. A value of any other form belongs to another program. It
-- is ignored.
local NO_FENCE = '0000000000000000'

local function fence_in(record)
  return record and string.match(record, '^(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)%d*$')
end
