#!lua flags=allow-oom
-- Commits what was folded from one batch of one partition: the fence of the projection.
--
-- KEYS  feed, recent, working, stale, then one row per session
-- ARGV  group, publish command, what a channel's name begins with, then the batch's highest pointer: id, s, i, o
--       then per session, in the order of the rows:
--         session, etag read ('' for none, '*' for a row that must not be there at all),
--         feed time in ms ('' leaves the index), working since ('' leaves it, '-' removes), mark ('' leaves it, '-' removes),
--         four counts: fields to set, fields to remove, frames, ids to acknowledge
--         fields to set (name, value), fields to remove, frames
--       then the ids to acknowledge, of all sessions in the same order
-- Reply {'rewound'} when the pointer is not in the feed as it was read: nothing was done.
--       Otherwise one word per session:
--         ok
--         conflict           the row is not the one that was read: nothing was done
--         unpublished <why>  done, but a frame was refused
--         broken <why>       not done; a row of another type: its session is in the index of stale ones, its pointers are
--                            acknowledged; anything else (access rules): they stay pending
--
-- Lua has no rollback, so each session runs under its own pcall, checks types before its first write, and writes last
-- what makes a repeat skip the rest: the indexes, then the row, then the acknowledgement.
--
-- A call costs 2 to 3 µs before the command does anything, so what can be done for all sessions at once is: new rows are
-- looked for, the indexes written and pointers acknowledged by one call each.

local feed, recent, working, stale = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, publish, channels = ARGV[1], ARGV[2], ARGV[3]
local CHUNK = 500

-- What is wrong with the type of a key, nil when nothing is.
local function wrong_type(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then
    return 'WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind
  end
end

local function pointer_stands(id, s, i, o)
  local entry = redis.call('XRANGE', feed, id, id)[1]
  if not entry then return false end
  local field = {}
  for n = 1, #entry[2], 2 do field[entry[2][n]] = entry[2][n + 1] end
  return field.s == s and field.i == i and field.o == o
end

-- Calls a command with many arguments in pieces: unpack fails beyond about 8 000. CHUNK is even: pairs stay together.
local function in_chunks(list, first, last, command, key, ...)
  local option, count = ..., select('#', ...)
  for from = first, last, CHUNK do
    local to = math.min(from + CHUNK - 1, last)
    if count == 0 then
      redis.call(command, key, unpack(list, from, to))
    else
      redis.call(command, key, option, unpack(list, from, to))
    end
  end
end

-- Where the parts of a session's change stand in ARGV, after its first. Numbers instead of a table of tables.
local SESSION, ETAG, RECENT, WORKING, MARK, SETS, REMOVES, FRAMES, IDS, PARTS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
local HEAD = 7

local words, starts, ids = {}, {}, {} -- by row: what became of it, its change in ARGV, how many ids come before its own
local function find_changes()
  local at, before = HEAD + 1, 0
  for n = 1, #KEYS - 4 do
    starts[n], ids[n] = at, before
    before = before + tonumber(ARGV[at + IDS])
    at = at + PARTS + 2 * tonumber(ARGV[at + SETS]) + tonumber(ARGV[at + REMOVES]) + tonumber(ARGV[at + FRAMES])
  end
  for n = 1, #ids do ids[n] = ids[n] + at end
end

-- Whether none of the rows is there that must not be.
local function all_new()
  local new = {}
  for n = 1, #starts do
    if ARGV[starts[n] + ETAG] == '*' then new[#new + 1] = KEYS[n + 4] end
  end
  for from = 1, #new, CHUNK do
    if redis.call('EXISTS', unpack(new, from, math.min(from + CHUNK - 1, #new))) > 0 then return false end
  end
  return true
end

-- Ids are acknowledged last, and together where they stand side by side.
local first_done, last_done = 1, 0
local function acknowledge_rest()
  if last_done >= first_done then in_chunks(ARGV, first_done, last_done, 'XACK', feed, group) end
end
local function acknowledge(n)
  local count = tonumber(ARGV[starts[n] + IDS])
  if ids[n] ~= last_done + 1 then
    acknowledge_rest()
    first_done = ids[n]
  end
  last_done = ids[n] + count - 1
end

-- Why a change can't be made; nil when the row is the one that was read, and whether it is a tombstone.
local function refusal(n, new)
  local row, etag = KEYS[n + 4], ARGV[starts[n] + ETAG]
  if etag == '*' then
    if new or redis.call('EXISTS', row) == 0 then return nil, false end
    return 'conflict'
  end
  local stored = redis.pcall('HMGET', row, 'etag', 'units')
  if stored.err then
    local wrong = wrong_type(row, 'hash')
    if not wrong then error(stored) end
    -- The row can't carry the mark, so the index does; the log keeps the events, and there is no position to move.
    redis.call('HSET', stale, ARGV[starts[n] + SESSION], wrong)
    acknowledge(n)
    return 'broken ' .. wrong
  end
  if (stored[1] or '') ~= etag then return 'conflict' end
  return nil, stored[1] and not stored[2]
end

-- The entries of the indexes of these rows, by one call an index.
local function index(rows)
  local seen, since, idle, marks, unmarked = {}, {}, {}, {}, {}
  for _, n in ipairs(rows) do
    local at = starts[n]
    local session, ms, working_since, mark = ARGV[at], ARGV[at + RECENT], ARGV[at + WORKING], ARGV[at + MARK]
    if ms ~= '' then seen[#seen + 1], seen[#seen + 2] = ms, session end
    if working_since == '-' then
      idle[#idle + 1] = session
    elseif working_since ~= '' then
      since[#since + 1], since[#since + 2] = working_since, session
    end
    if mark == '-' then
      unmarked[#unmarked + 1] = session
    elseif mark ~= '' then
      marks[#marks + 1], marks[#marks + 2] = session, mark
    end
  end
  in_chunks(seen, 1, #seen, 'ZADD', recent, 'GT')
  in_chunks(idle, 1, #idle, 'ZREM', working)
  in_chunks(since, 1, #since, 'ZADD', working)
  in_chunks(unmarked, 1, #unmarked, 'HDEL', stale)
  in_chunks(marks, 1, #marks, 'HSET', stale)
end

local function publish_frames(session, frames, count)
  local word = 'ok'
  for n = frames, frames + count - 1 do
    local sent = redis.pcall(publish, channels .. session, ARGV[n])
    if type(sent) == 'table' and sent.err then word = 'unpublished ' .. sent.err end
  end
  return word
end

local function write(n, is_tombstone)
  local row, at, word = KEYS[n + 4], starts[n], 'ok'
  local sets, removes, frames = tonumber(ARGV[at + SETS]), tonumber(ARGV[at + REMOVES]), tonumber(ARGV[at + FRAMES])
  local from = at + PARTS
  if sets > 0 then
    local to = from + 2 * sets
    if removes > 0 then in_chunks(ARGV, to, to + removes - 1, 'HDEL', row) end
    if is_tombstone then redis.call('PERSIST', row) end -- it is a row again
    in_chunks(ARGV, from, to - 1, 'HSET', row)
    if frames > 0 then word = publish_frames(ARGV[at], to + removes, frames) end
  end
  acknowledge(n)
  return word
end

local function broken(why)
  return 'broken ' .. (type(why) == 'table' and why.err or tostring(why))
end

local function commit_all()
  local looked, new = pcall(all_new)
  local rows, written, tombstones = {}, {}, {}
  for n = 1, #starts do
    local fine, word, is_tombstone = pcall(refusal, n, looked and new)
    if not fine then
      words[n] = broken(word)
    elseif word then
      words[n] = word
    else
      rows[#rows + 1], tombstones[n] = n, is_tombstone
      if ARGV[starts[n] + SETS] ~= '0' then written[#written + 1] = n end
    end
  end
  local indexed = pcall(index, written)
  for _, n in ipairs(rows) do
    local fine, word = indexed, nil
    -- What one of them can't have in an index, say a time that is no number, must not hold up the others.
    if not indexed then fine, word = pcall(index, { n }) end
    if fine then fine, word = pcall(write, n, tombstones[n]) end
    words[n] = fine and word or broken(word)
  end
  acknowledge_rest()
end

local function trim()
  local pending = redis.pcall('XPENDING', feed, group)
  if pending.err then
    if string.find(pending.err, 'NOGROUP', 1, true) then return end
    error(pending)
  end
  if pending[1] > 0 then
    redis.call('XTRIM', feed, 'MINID', '=', pending[2])
    return
  end
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', feed)) do
    local field = {}
    for n = 1, #info, 2 do field[info[n]] = info[n + 1] end
    if field.name == group then
      local ms, seq = string.match(field['last-delivered-id'], '^(%d+)-(%d+)$')
      redis.call('XTRIM', feed, 'MINID', '=', ms .. '-' .. string.format('%.0f', tonumber(seq) + 1))
    end
  end
end

for n, kind in ipairs({ 'stream', 'zset', 'zset', 'hash' }) do
  local wrong = wrong_type(KEYS[n], kind)
  if wrong then return redis.error_reply(wrong) end
end
if not pointer_stands(ARGV[4], ARGV[5], ARGV[6], ARGV[7]) then return { 'rewound' } end

find_changes()
commit_all()
trim()
return words
