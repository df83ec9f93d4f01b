-- Lists a page of the locks that are held or waited for. It changes nothing. It finds a lock by its
-- fence or its queue. A fence alone remains from a lock that was released, which is not listed.
-- KEYS: none
-- ARGV: 1 the prefix of Quorate's keys, 2 a pattern for the keys of fences and queues, 3 the
--   cursor, 0 for the first page, 4 about how many keys the server examines
-- Replies: {the next cursor, or 0 after the last page; {the names, in any order}}
local page = redis.pcall('SCAN', ARGV[3], 'MATCH', ARGV[2], 'COUNT', ARGV[4])
if page.err then
  -- The server's error does not name the command that the script may not call.
  return redis.error_reply(page.err .. ' (SCAN)')
end
local names, is_listed = {}, {}
for _, key in ipairs(page[2]) do
  local name = string.sub(key, #ARGV[1] + 4, -2)
  if not is_listed[name] then
    -- A lock whose key the user may not read is left out.
    local count = redis.pcall('EXISTS', name, ARGV[1] .. 'q:{' .. name .. '}')
    if type(count) == 'number' and count > 0 then
      is_listed[name] = true
      names[#names + 1] = name
    end
  end
end
return {page[1], names}
