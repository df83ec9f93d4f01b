-- The reply to an entry of a batch that has raised this error. Some servers raise an error as a
-- table, and others as its text.
local function entry_error(raised)
  if type(raised) == 'table' then
    return raised
  end
  local text = tostring(raised)
  return redis.error_reply(string.match(text, '^%u+ ') and text or 'ERR ' .. text)
end
