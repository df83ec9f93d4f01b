-- A full server (`maxmemory` is reached, and nothing is evicted) lets a script store nothing, until
-- the script has executed a write that needs no memory, even one that changes nothing. From then on
-- it lets the script store anything. What is there already is kept that way. What is new must not
-- be stored behind it, so this is asked before the first write.
local FULL = redis.error_reply("OOM command not allowed when used memory > 'maxmemory'.")
local knows_full, was_full = false, false

-- Takes in what a command was answered that needs memory, before anything was written.
local function note_full(answer)
  local denied = type(answer) == 'table' and answer.err
  knows_full, was_full = true, denied and string.find(denied, 'OOM ', 1, true) ~= nil or false
end

-- The session is there, so that nothing is stored under its key.
local function is_full(session)
  if not knows_full then
    note_full(redis.pcall('SET', session, '', 'NX'))
  end
  return was_full
end
