#!lua flags=allow-oom
-- Deletes one session: log, values, index and marks. A tombstone keeps the row's position, so that a later log of the
-- same session gets a larger epoch, and in `begun` the ops of the first events of the last logs deleted, so that a try
-- of one of those calls that comes late begins no log again. A tombstone is a row without `units`.
--
-- KEYS  log, row, recent, working, stale
-- ARGV  session, new etag, publish command, channel, life of the tombstone in ms, epoch of the log as the caller saw it ('' for none),
--       then, if only a log that ends just there may go, the position of its last event
-- Reply deleted                there was something, or an earlier try of this call (same etag) had deleted it
--       nothing                nothing was there, nothing was written
--       newer                  the log there began after the caller looked, or has gone on: a late repeat must not delete it
--
-- `allow-oom`: deleting is what a full server needs. The frame goes out first: a refused PUBLISH stops the script while
-- nothing is written, and subscribers get it only when all is.

local log, row, recent, working, stale = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local session, etag, publish, channel, life_ms, seen = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

for n, kind in ipairs({ 'stream', 'hash', 'zset', 'zset', 'hash' }) do
  local found = redis.call('TYPE', KEYS[n]).ok
  if found ~= 'none' and found ~= kind then
    return redis.error_reply('WRONGTYPE ' .. KEYS[n] .. ' is a ' .. found .. ', not a ' .. kind)
  end
end

local function parse(id)
  local epoch, seq = string.match(id or '', '^(%d+)%-(%-?%d+)$')
  return tonumber(epoch), tonumber(seq)
end

local FIRST_EVENTS, BEGUN_MAX = 8, 32

-- The ops of the log's first events: of the call that began it, and of those that were tried as its beginning beside
-- that one. Those of logs deleted before stand behind them.
local function begun(earlier)
  local ops, known = {}, {}
  local function add(op)
    if not known[op] and #ops < BEGUN_MAX then
      ops[#ops + 1] = op
      known[op] = true
    end
  end
  for _, entry in ipairs(redis.call('XRANGE', log, '-', '+', 'COUNT', FIRST_EVENTS)) do
    for n = 1, #entry[2], 2 do
      if entry[2][n] == 'op' then add(entry[2][n + 1]) end
    end
  end
  for op in string.gmatch(earlier or '', '[^,]+') do add(op) end
  return table.concat(ops, ',')
end

local function unindex()
  return redis.call('ZREM', recent, session) + redis.call('ZREM', working, session) + redis.call('HDEL', stale, session)
end

local old = redis.call('HMGET', row, 'pos', 'rev', 'units', 'etag', 'begun')
local pos, rev, units = old[1] or '0-0', old[2], old[3]
local top -- the highest id the log ever had
if redis.call('EXISTS', log) == 1 then
  local tail = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if tail and parse(tail[1]) > (tonumber(seen) or -1) then return 'newer' end
  if tail and (ARGV[7] or '') ~= '' and tail[1] ~= ARGV[7] then return 'newer' end
  local info = redis.call('XINFO', 'STREAM', log)
  for n = 1, #info, 2 do
    if info[n] == 'last-generated-id' then top = info[n + 1] end
  end
elseif not units then
  if old[4] == etag or unindex() > 0 then return 'deleted' end
  return 'nothing'
end

local epoch, seq = parse(pos)
if top then
  local top_epoch, top_seq = parse(top)
  if not epoch or top_epoch > epoch or (top_epoch == epoch and top_seq > seq) then pos, epoch = top, top_epoch end
end
local n = tonumber(string.match(rev or '', '^(%d+)%-') or 0) + 1
rev = string.format('%.0f', n) .. '-' .. etag
redis.call(publish, channel, '{"type":"session/deleted","sessionId":' .. cjson.encode(session)
  .. ',"epoch":' .. string.format('%.0f', epoch or 0) .. ',"rev":"' .. rev .. '"}')
local ops = begun(old[5])
redis.call('UNLINK', log, row)
redis.call('HSET', row, 'pos', pos, 'etag', etag, 'rev', rev)
if ops ~= '' then redis.call('HSET', row, 'begun', ops) end
redis.call('PEXPIRE', row, life_ms)
unindex()
return 'deleted'
