-- Reports what the node knows about itself and its set, and puts it into quarantine if it may have
-- forgotten locks. A node in quarantine gives no session.
-- KEYS: 1 the node's record
-- ARGV: 1 the version of the record that the client can read, 2 the client's wall clock in
--   milliseconds, 3 the node's clock as the client last saw it, or nothing, 4 the most that this
--   clock should show now, 5 the node's mark if it needs a new one, 6 its name if it needs a new
--   one, 7 how long a session lasts in milliseconds, 8 the quarantine time if the record has none,
--   9 1 if the client has just seen that the server writes everything to disk before it answers,
--   else 0, 10 1 if the node must not store anything, else 0
-- Replies: {time in microseconds, 16 digits; mark; name; the reason for the quarantine or nothing;
--   milliseconds of quarantine left; 1 if the node has its place in the set, else 0; 1 if it writes
--   everything to disk before it answers, else 0; the number of keys besides the record; for how
--   many milliseconds it accepts no other config; for how many milliseconds clients must not
--   request locks from it; and if it has a config: its change, origin, nodes, nodes before,
--   newcomer, max ttl, quarantine time in milliseconds};
--   or instead of the list, the version of the record, if the client cannot read it; an error
--   DAMAGED, if the record makes no sense
local fields = {'wire', 'run', 'mark', 'doubt', 'since', 'since_wall', 'seen', 'seen_wall',
  'enrolled', 'durable', 'quarantine_ms', 'id', 'doubted', 'changed', 'change', 'recovers'}
local record = {}
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do
  record[fields[i]] = value or ''
end
-- If another program has changed the record, none of it is used.
local needed = {'wire', 'seen', 'seen_wall', 'doubted', 'enrolled', 'durable', 'since',
  'since_wall'}
for i, field in ipairs({'quarantine_ms', 'changed', 'recovers',
    unpack(record.wire == '' and {} or needed)}) do
  local may_lack = i <= 3 or i >= 10 and record.doubt == ''
  if not string.match(record[field], may_lack and '^%d*$' or '^%d+$') then
    return redis.error_reply('DAMAGED ' .. field .. ' is not a number')
  end
end
if record.wire ~= '' and record.wire ~= ARGV[1] then
  return tonumber(record.wire)
end
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local replication = redis.call('INFO', 'replication')
run = (run or '') .. ':' .. (string.match(replication, 'master_replid:(%x+)') or '')
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
local ms, wall = math.floor(time / 1000), tonumber(ARGV[2])

-- Why the clocks show that the node may have forgotten locks, or nothing.
local function reason_by_clocks()
  -- What a client saw before the last quarantine says nothing about the time since.
  if ARGV[3] ~= '' and tonumber(ARGV[3]) >= tonumber(record.doubted) then
    if tonumber(record.seen) < tonumber(ARGV[3]) then
      return 'rolled-back'
    end
    -- If another client was connected later than that, the clock of this client stood still.
    if ms > ARGV[4] + 5000 and tonumber(record.seen) <= ARGV[4] + 5000 then
      return 'clock-stepped'
    end
  end
  -- All sessions have expired: either no client was connected, or the node's clock has stepped. The
  -- clients' clocks show which.
  local gap, wall_gap = ms - record.seen, math.max(wall - record.seen_wall, 0)
  return gap > tonumber(ARGV[7]) and gap > wall_gap + 5000 and 'clock-stepped' or nil
end

local reason
if record.wire == '' then
  record.id, record.seen, record.seen_wall, reason = ARGV[6], ms, wall, 'unknown'
elseif record.run ~= run then
  reason = 'other-run'
  if record.durable == '1' and ARGV[9] == '1' and record.doubt == '' then
    -- The restart has lost nothing, unless the clocks disagree.
    reason, record.mark = reason_by_clocks(), ARGV[5]
  end
else
  reason = reason_by_clocks()
end
if reason == 'other-run' and record.change == '' then
  -- The name came with the data of another node, and no set knows this node by it.
  record.id = ARGV[6]
end
if reason then
  record.doubt, record.mark, record.enrolled = reason, ARGV[5], '0'
  record.since, record.since_wall, record.doubted = ms, wall, ms
end
local left = 0
if record.doubt ~= '' then
  -- If the node's clock was set back, that must not extend the quarantine.
  record.since = math.min(tonumber(record.since), ms)
  -- The same holds if the clock of the client that began the quarantine was ahead.
  if wall + 5000 < tonumber(record.since_wall) then
    record.since_wall = wall
  end
  local passed = math.min(ms - record.since, math.max(wall - record.since_wall, 0))
  local quarantine_ms = record.quarantine_ms == '' and ARGV[8] or record.quarantine_ms
  -- The quarantine time begins only when the node has its place.
  left = record.enrolled == '1' and math.max(quarantine_ms - passed, 0) or tonumber(quarantine_ms)
  if not reason and left == 0 and record.enrolled == '1' then
    -- Holders store their keys again before clients request locks from the node.
    record.doubt, record.mark, record.recovers = '', ARGV[5], ms + ARGV[7]
  end
end
-- A clock that was set back is recorded too: keys that are stored by it expire immediately when it
-- is corrected, and the record must show that.
if ms >= tonumber(record.seen) or ms + 1000 < tonumber(record.seen) then
  record.seen, record.seen_wall = ms, wall
end
record.durable = ARGV[9] == '1' and record.doubt == '' and '1' or '0'
local keys = redis.call('DBSIZE') - redis.call('EXISTS', KEYS[1])
local function digits(number)
  return string.format('%.0f', tonumber(number))
end
if ARGV[10] ~= '1' then
  if record.wire ~= '' then
    -- After any write, even one that changes nothing, a full server lets the script store. It
    -- stores only a record that exists already.
    redis.call('HDEL', KEYS[1], '')
  end
  redis.call('HSET', KEYS[1], 'wire', ARGV[1], 'run', run, 'id', record.id, 'mark', record.mark,
  'doubt', record.doubt, 'since', record.doubt == '' and '' or digits(record.since),
  'since_wall', record.doubt == '' and '' or digits(record.since_wall),
  'seen', digits(record.seen), 'seen_wall', digits(record.seen_wall),
  'enrolled', record.enrolled, 'durable', record.durable, 'doubted', digits(record.doubted),
  'recovers', record.recovers == '' and '' or digits(record.recovers))
end
-- Until then some clients may still use the config before the last one.
local changes_in = 0
if record.changed ~= '' then
  changes_in = math.max(math.min(tonumber(record.changed), ms) + record.quarantine_ms - ms, 0)
end
-- If the clock was set back, that must not extend the recovery.
local recovers_in = record.recovers == '' and 0 or math.max(record.recovers - ms, 0)
recovers_in = recovers_in > ARGV[7] + 1000 and 0 or math.min(recovers_in, ARGV[7])
local reply = {string.format('%016.0f', time), record.mark, record.id, record.doubt, left,
  tonumber(record.enrolled), tonumber(record.durable), keys, changes_in, recovers_in}
local config = redis.call('HMGET', KEYS[1], 'change', 'origin', 'members', 'before', 'newcomer',
  'max_ttl', 'quarantine_ms')
if config[1] then
  for i, value in ipairs(config) do
    reply[10 + i] = value
  end
end
return reply
