-- Says what the node is, and doubts it if it may have forgotten locks: a doubted node gives no
-- session until the guard is over.
-- KEYS: 1 the node's record
-- ARGV: 1 the version of the record that the client reads, 2 the client's wall clock in
--   milliseconds, 3 what the node's clock showed the client last, or nothing, 4 the most that it
--   can show now, 5 the node's mark if it is to have a new one, 6 its name likewise, 7 how
--   long a session lasts in milliseconds, 8 how long the guard lasts where the node does not know
--   better, 9 whether the client has seen that everything is written to disk at once: 1 or 0, 10
--   whether it only looks, and the node is to stay as it is: 1 or 0
-- Replies: {time in microseconds, 16 digits, mark, name, why it is doubted or nothing, how many
--   milliseconds the guard still lasts, 1 if it has its place among the others else 0, 1 if it
--   writes everything to disk at once else 0, how many keys it has besides the record, for how
--   many milliseconds it goes by no other change, for how many it is not to be asked for locks,
--   and if it knows of a set: its change, origin,
--   nodes, nodes before, newcomer, the longest ttl, the guard in milliseconds}; the version of the
--   record, if the client does not read it; an error DAMAGED, if the record makes no sense
local fields = {'wire', 'run', 'mark', 'doubt', 'since', 'since_wall', 'seen', 'seen_wall',
  'enrolled', 'durable', 'guard', 'id', 'doubted', 'changed', 'change', 'recovers'}
local record = {}
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do
  record[fields[i]] = value or ''
end
-- Of a record that somebody has meddled with nothing is believed.
local needed = {'wire', 'seen', 'seen_wall', 'doubted', 'enrolled', 'durable', 'since',
  'since_wall'}
for i, field in ipairs({'guard', 'changed', 'recovers',
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

local function clock_doubt()
  -- What a client knew before the last guard says nothing about the time since.
  if ARGV[3] ~= '' and tonumber(ARGV[3]) >= tonumber(record.doubted) then
    if tonumber(record.seen) < tonumber(ARGV[3]) then
      return 'rolled-back'
    end
    -- If others were here later than that, it is the client's own clock that stood still.
    if ms > ARGV[4] + 5000 and tonumber(record.seen) <= ARGV[4] + 5000 then
      return 'clock-stepped'
    end
  end
  -- All sessions have lapsed: nobody was here, or the clock went on without them. The clients'
  -- clocks tell which.
  local gap, wall_gap = ms - record.seen, math.max(wall - record.seen_wall, 0)
  return gap > tonumber(ARGV[7]) and gap > wall_gap + 5000 and 'clock-stepped' or nil
end

local why
if record.wire == '' then
  record.id, record.seen, record.seen_wall, why = ARGV[6], ms, wall, 'unknown'
elseif record.run ~= run then
  why = 'other-run'
  if record.durable == '1' and ARGV[9] == '1' and record.doubt == '' then
    -- Nothing was lost, unless the clocks do not agree with that.
    why, record.mark = clock_doubt(), ARGV[5]
  end
else
  why = clock_doubt()
end
if why == 'other-run' and record.change == '' then
  -- A name that it has from another, and by which no set knows it, is not its own.
  record.id = ARGV[6]
end
if why then
  record.doubt, record.mark, record.enrolled = why, ARGV[5], '0'
  record.since, record.since_wall, record.doubted = ms, wall, ms
end
local left = 0
if record.doubt ~= '' then
  -- A clock that was set back must not keep the node out for as long as that.
  record.since = math.min(tonumber(record.since), ms)
  -- Nor must a client's that was ahead when the node was doubted.
  if wall + 5000 < tonumber(record.since_wall) then
    record.since_wall = wall
  end
  local passed = math.min(ms - record.since, math.max(wall - record.since_wall, 0))
  local guard = record.guard == '' and ARGV[8] or record.guard
  -- Without its place the guard has not begun.
  left = record.enrolled == '1' and math.max(guard - passed, 0) or tonumber(guard)
  if not why and left == 0 and record.enrolled == '1' then
    -- Holders give it back their keys before others ask for them.
    record.doubt, record.mark, record.recovers = '', ARGV[5], ms + ARGV[7]
  end
end
-- A clock that was set back is believed as well: keys that are stored by it are over at once when
-- it is set right again, and that must be seen.
if ms >= tonumber(record.seen) or ms + 1000 < tonumber(record.seen) then
  record.seen, record.seen_wall = ms, wall
end
record.durable = ARGV[9] == '1' and record.doubt == '' and '1' or '0'
-- The record itself is no key of anybody's.
local keys = redis.call('DBSIZE') - redis.call('EXISTS', KEYS[1])
local function digits(number)
  return string.format('%.0f', tonumber(number))
end
local function keep()
  -- A record that is there is kept also if the server is full: a script that has written may store.
  if record.wire ~= '' then
    redis.call('HDEL', KEYS[1], '')
  end
end
if ARGV[10] ~= '1' then
  keep()
  redis.call('HSET', KEYS[1], 'wire', ARGV[1], 'run', run, 'id', record.id, 'mark', record.mark,
  'doubt', record.doubt, 'since', record.doubt == '' and '' or digits(record.since),
  'since_wall', record.doubt == '' and '' or digits(record.since_wall),
  'seen', digits(record.seen), 'seen_wall', digits(record.seen_wall),
  'enrolled', record.enrolled, 'durable', record.durable, 'doubted', digits(record.doubted),
  'recovers', record.recovers == '' and '' or digits(record.recovers))
end
-- Those who go by the list before the last one must be gone.
local changes_in = 0
if record.changed ~= '' then
  changes_in = math.max(math.min(tonumber(record.changed), ms) + record.guard - ms, 0)
end
-- A clock that was set back must not make it longer.
local recovers_in = record.recovers == '' and 0 or math.max(record.recovers - ms, 0)
recovers_in = recovers_in > ARGV[7] + 1000 and 0 or math.min(recovers_in, ARGV[7])
local told = {string.format('%016.0f', time), record.mark, record.id, record.doubt, left,
  tonumber(record.enrolled), tonumber(record.durable), keys, changes_in, recovers_in}
local pact = redis.call('HMGET', KEYS[1], 'change', 'origin', 'members', 'before', 'newcomer',
  'max_ttl', 'guard')
if pact[1] then
  for i, value in ipairs(pact) do
    told[10 + i] = value
  end
end
return told
