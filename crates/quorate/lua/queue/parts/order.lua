-- Digits are the same in every language of the server, but other signs are not: by bytes.
local function is_before(one, other)
  local ticket, others = string.sub(one, 4, 19), string.sub(other, 4, 19)
  if ticket ~= others then
    return ticket < others
  end
  for i = 20, #one do
    local byte, others = string.byte(one, i), string.byte(other, i) or -1
    if byte ~= others then
      return byte < others
    end
  end
  return #one < #other
end
