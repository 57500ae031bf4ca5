#!lua
-- Points at the last event of a log once more, so that a worker looks at the session: where its pointer was lost, or
-- where an operator wants the row folded again.
--
-- KEYS  log, feed, row
-- ARGV  session, etag of the row that was looked at ('' for none), then fields to set on the row (name, value)
-- Reply ok position   pointed at; the fields are set
--       conflict      the row is not the one that was looked at: nothing was done
--       empty         there is no log to point into: nothing was done

local log, feed, row = KEYS[1], KEYS[2], KEYS[3]

for n, kind in ipairs({ 'stream', 'stream', 'hash' }) do
  local found = redis.call('TYPE', KEYS[n]).ok
  if found ~= kind and found ~= 'none' then
    return redis.error_reply('WRONGTYPE ' .. KEYS[n] .. ' is a ' .. found .. ', not a ' .. kind)
  end
end
if (redis.call('HGET', row, 'etag') or '') ~= ARGV[2] then return { 'conflict' } end
local tail = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if not tail then return { 'empty' } end

local field = {}
for n = 1, #tail[2], 2 do field[tail[2][n]] = tail[2][n + 1] end
if #ARGV > 2 then
  redis.call('HSET', row, unpack(ARGV, 3))
  redis.call('PERSIST', row) -- a tombstone is a row again
end
redis.call('XADD', feed, '*', 's', ARGV[1], 'i', tail[1], 'o', field.op or '', 't', field.type or '')
return { 'ok', tail[1] }
