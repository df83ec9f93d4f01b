-- Whether one owner is before another in the order of the queue. Owners are compared byte by byte:
-- the order of texts in Lua depends on the locale of the server, except for digits.
local function is_before(one, other)
  local ticket, other_ticket = string.sub(one, 4, 19), string.sub(other, 4, 19)
  if ticket ~= other_ticket then
    return ticket < other_ticket
  end
  for i = 20, #one do
    local byte, other_byte = string.byte(one, i), string.byte(other, i) or -1
    if byte ~= other_byte then
      return byte < other_byte
    end
  end
  return #one < #other
end
