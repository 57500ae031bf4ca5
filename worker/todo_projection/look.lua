#!lua flags=no-writes,allow-stale
-- Where a session's log and row stand, at one moment and without their data.
--
-- KEYS  log, row
-- Reply tail position, first position, number of entries; then the row's etag, pos, units and partial. What is not there
--       is ''. A key of another type is an error.

local log, row = KEYS[1], KEYS[2]

for n, kind in ipairs({ 'stream', 'hash' }) do
  local found = redis.call('TYPE', KEYS[n]).ok
  if found ~= kind and found ~= 'none' then
    return redis.error_reply('WRONGTYPE ' .. KEYS[n] .. ' is a ' .. found .. ', not a ' .. kind)
  end
end

local tail = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
local stored = redis.call('HMGET', row, 'etag', 'pos', 'units', 'partial')
return {
  tail and tail[1] or '', first and first[1] or '', tostring(redis.call('XLEN', log)),
  stored[1] or '', stored[2] or '', stored[3] or '', stored[4] or '',
}
