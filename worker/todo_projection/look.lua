#!lua flags=no-writes,allow-stale
-- Where a session's log and row stand, at one moment and without their data.
--
-- KEYS  log, row
-- Reply tail position, its op, first position, number of entries; then the row's pos, etag and units. What is not there
--       is ''. A key of another type is an error.

local log, row = KEYS[1], KEYS[2]
local tail = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
local op = ''
if tail then
  for n = 1, #tail[2], 2 do
    if tail[2][n] == 'op' then op = tail[2][n + 1] end
  end
end
local stored = redis.call('HMGET', row, 'pos', 'etag', 'units')
return {
  tail and tail[1] or '', op, first and first[1] or '', tostring(redis.call('XLEN', log)),
  stored[1] or '', stored[2] or '', stored[3] or '',
}
