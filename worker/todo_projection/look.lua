#!lua flags=no-writes,allow-stale
-- Where a session's log and row stand, at one moment and without their data.
--
-- KEYS  log, row
-- Reply tail position, first position, number of entries; then the row's etag, pos, units and partial; the op of the
--       event that stands in the log where the row does; the first field that the row lacks; a list of its marks; and
--       the op of the log's last event.
--       What is not there is ''. A key of another type is an error.

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
local pos, units = stored[2], stored[3]

local function op_at(id)
  local entry = tail
  if id ~= tail[1] then
    local found = redis.pcall('XRANGE', log, id, id) -- an error when this is no position
    entry = not found.err and found[1]
  end
  local fields = entry and entry[2] or {}
  for n = 1, #fields, 2 do
    if fields[n] == 'op' then return fields[n + 1] end
  end
  return ''
end

local lacks, marks = '', {}
local function need(name)
  if lacks == '' and not redis.call('HGET', row, name) then lacks = name end
end
if pos or units then need('etag') end
for unit, version in string.gmatch(units or '', '([^,:]+):(%d+)') do
  if version ~= '0' then
    need(unit)
    need(unit .. '.ver')
  end
  marks[#marks + 1] = redis.call('HGET', row, unit .. '.stale') or nil
end

return {
  tail and tail[1] or '', first and first[1] or '', tostring(redis.call('XLEN', log)),
  stored[1] or '', pos or '', units or '', stored[4] or '',
  tail and pos and op_at(pos) or '', lacks, marks, tail and op_at(tail[1]) or '',
}
