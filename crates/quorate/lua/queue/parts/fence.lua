-- The record of a lock's last grant: its fence, 16 digits, and behind that its time, if an
-- extension has written it; see since.lua. What is something else than digits is another
-- program's, and counts for nothing.
local NO_FENCE = '0000000000000000'

local function fence_in(record)
  return record and string.match(record, '^(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)%d*$')
end
