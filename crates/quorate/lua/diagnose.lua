-- Reports what the node's record contains, which calls the user may not make, and which calls were
-- slow. It changes nothing.
-- KEYS: 1 the node's record
-- ARGV: calls, the words of each separated by line ends
-- Replies: {texts of words: `record FIELD VALUE`; `keys N` for the keys besides the record;
--   `checked`, if the server can tell which calls the user may make; `denied N` for call N;
--   `settings`, if the user may read settings; `slow SECONDS MICROSECONDS COMMAND` for a slow
--   call, and `log`, if the user may read these}
local lines = {}
local function add(...)
  lines[#lines + 1] = table.concat({...}, ' ')
end

local fields = {'seen', 'seen_wall', 'change', 'origin', 'members', 'before', 'max_ttl',
  'quarantine_ms', 'doubt'}
local record = redis.pcall('HMGET', KEYS[1], unpack(fields))
if record.err then
  return record
end
for i, value in ipairs(record) do
  if value then
    add('record', fields[i], value)
  end
end

add('keys', redis.call('DBSIZE') - redis.call('EXISTS', KEYS[1]))

-- Redis 7.0 and later. A call that is only checked leaves no entry in the server's security log.
local is_known, check = pcall(function() return redis.acl_check_cmd end)
local function may(...)
  local is_valid, is_allowed = pcall(check, ...)
  return is_valid and is_allowed
end
if not is_known or not check then
  return lines
end
add('checked')
for i, call in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(call, '[^\n]+') do
    words[#words + 1] = word
  end
  if not may(unpack(words)) then
    add('denied', i)
  end
end
if may('CONFIG', 'GET', 'save') then
  add('settings')
end
if may('SLOWLOG', 'GET', '128') then
  local log = redis.pcall('SLOWLOG', 'GET', '128')
  if not log.err then
    add('log')
    for _, entry in ipairs(log) do
      local words, client = entry[4], entry[6] or ''
      local call = string.upper((words[1] or '') .. ' ' .. (words[2] or ''))
      -- A client of Quorate loads its scripts once, when it connects.
      if call ~= 'SCRIPT LOAD' or not string.match(client, '^quorate%-') then
        add('slow', entry[2], entry[3], string.match(words[1] or '', '^[%w._-]+') or '?')
      end
    end
  end
end
return lines
