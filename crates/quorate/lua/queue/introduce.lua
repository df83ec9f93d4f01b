-- Tells who a client is, in words for people. On a full server that is kept, and not stored anew.
-- KEYS: 1 who the client is
-- ARGV: 1 the words, 2 for how many milliseconds they are kept
-- Replies: OK; an error OOM, if the server is full and does not know the client
if redis.call('EXISTS', KEYS[1]) == 1 then
  -- A script that has written may store also if the server is full.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
