-- Stores the description of a client, which is shown to people. On a full server a description that
-- exists is replaced, and no new one is stored.
-- KEYS: 1 the description
-- ARGV: 1 its text, 2 for how many milliseconds it is kept
-- Replies: OK; an error OOM, if the server is full and has no description of the client
if redis.call('EXISTS', KEYS[1]) == 1 then
  -- After any write, a full server lets the script store.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
