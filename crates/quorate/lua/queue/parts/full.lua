-- A full server (`maxmemory` is reached, and nothing is evicted) rejects every write that needs
-- memory, until the script has executed one that needs none, even one that changes nothing. From
-- then on it lets the script store anything. Scripts use this to keep what exists. Nothing new may
-- be stored this way, so they check whether the server is full before their first write.
local FULL = redis.error_reply("OOM command not allowed when used memory > 'maxmemory'.")
local was_checked, was_full = false, false

-- Records the reply to a command that needs memory and was sent before the first write.
local function record_full(reply)
  local refusal = type(reply) == 'table' and reply.err
  was_checked, was_full = true, refusal and string.find(refusal, 'OOM ', 1, true) ~= nil or false
end

-- The session exists, so this SET stores nothing.
local function is_full(session_key)
  if not was_checked then
    record_full(redis.pcall('SET', session_key, '', 'NX'))
  end
  return was_full
end
