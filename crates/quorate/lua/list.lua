-- Says which locks are held or waited for: a page of them. It changes nothing. A lock is known by
-- its fence or its line; a fence alone is what is left of one that was given back.
-- KEYS: none
-- ARGV: 1 the prefix of all keys of ours, 2 a pattern of keys of fences and lines, 3 the cursor, 0
--   at first, 4 how many keys of the server are looked at, more or less
-- Replies: {the next cursor, 0 at the end, {the names, in any order}}
local page = redis.pcall('SCAN', ARGV[3], 'MATCH', ARGV[2], 'COUNT', ARGV[4])
if page.err then
  -- A server does not say what it was that a script may not do.
  return redis.error_reply(page.err .. ' (SCAN)')
end
local names, is_told = {}, {}
for _, key in ipairs(page[2]) do
  local name = string.sub(key, #ARGV[1] + 4, -2)
  if not is_told[name] then
    -- A lock whose key the user may not see is left out.
    local known = redis.pcall('EXISTS', name, ARGV[1] .. 'q:{' .. name .. '}')
    if type(known) == 'number' and known > 0 then
      is_told[name] = true
      names[#names + 1] = name
    end
  end
end
return {page[1], names}
