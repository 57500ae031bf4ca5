#!lua flags=allow-oom
-- Commits what was folded from one batch of one partition: the fence of the projection.
--
-- KEYS  feed, recent, working, stale, then one row per session
-- ARGV  group, publish command, then the batch's highest pointer: id, s, i, o
--       then per session, in the order of the rows:
--         session, channel, etag read ('' for none),
--         feed time in ms ('' leaves the index), working since ('' leaves it, '-' removes), mark ('' leaves it, '-' removes),
--         count and fields to set (name, value), count and fields to remove, count and frames, count and ids to acknowledge
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

local feed, recent, working, stale = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, publish = ARGV[1], ARGV[2]
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

-- Calls a command with its many arguments in pieces: unpack fails beyond about 8 000.
local function in_chunks(head, first, count)
  for from = first, first + count - 1, CHUNK do
    local to = math.min(from + CHUNK, first + count) - 1
    local args = {}
    for n = 1, #head do args[n] = head[n] end
    for n = from, to do args[#args + 1] = ARGV[n] end
    redis.call(unpack(args))
  end
end

local next_arg = 7
local function take()
  local value = ARGV[next_arg]
  next_arg = next_arg + 1
  return value
end
local function take_list(width)
  local list = { first = next_arg + 1, count = tonumber(ARGV[next_arg]) * width }
  next_arg = list.first + list.count
  return list
end

local function read_change()
  return {
    session = take(), channel = take(), etag = take(),
    recent = take(), working = take(), mark = take(),
    set = take_list(2), remove = take_list(1), frames = take_list(1), ids = take_list(1),
  }
end

local function acknowledge(change)
  in_chunks({ 'XACK', feed, group }, change.ids.first, change.ids.count)
end

local function index(change)
  if change.recent ~= '' then redis.call('ZADD', recent, 'GT', change.recent, change.session) end
  if change.working == '-' then
    redis.call('ZREM', working, change.session)
  elseif change.working ~= '' then
    redis.call('ZADD', working, change.working, change.session)
  end
  if change.mark == '-' then
    redis.call('HDEL', stale, change.session)
  elseif change.mark ~= '' then
    redis.call('HSET', stale, change.session, change.mark)
  end
end

local function publish_frames(change)
  local word = 'ok'
  for n = change.frames.first, change.frames.first + change.frames.count - 1 do
    local sent = redis.pcall(publish, change.channel, ARGV[n])
    if type(sent) == 'table' and sent.err then word = 'unpublished ' .. sent.err end
  end
  return word
end

local function commit(row, change)
  local wrong = wrong_type(row, 'hash')
  if wrong then
    -- The row can't carry the mark, so the index does; the log keeps the events, and there is no position to move.
    redis.call('HSET', stale, change.session, wrong)
    acknowledge(change)
    return 'broken ' .. wrong
  end
  local stored = redis.call('HMGET', row, 'etag', 'units')
  if (stored[1] or '') ~= change.etag then return 'conflict' end
  local word = 'ok'
  if change.set.count > 0 then
    index(change)
    if change.remove.count > 0 then in_chunks({ 'HDEL', row }, change.remove.first, change.remove.count) end
    if stored[1] and not stored[2] then redis.call('PERSIST', row) end -- a tombstone is a row again
    in_chunks({ 'HSET', row }, change.set.first, change.set.count)
    word = publish_frames(change)
  end
  acknowledge(change)
  return word
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
if not pointer_stands(ARGV[3], ARGV[4], ARGV[5], ARGV[6]) then return { 'rewound' } end

local words = {}
for n = 5, #KEYS do
  local fine, word = pcall(commit, KEYS[n], read_change())
  if not fine then word = 'broken ' .. (type(word) == 'table' and word.err or tostring(word)) end
  words[#words + 1] = word
end
trim()
return words
