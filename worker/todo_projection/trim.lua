#!lua flags=allow-oom
-- Takes events out of one log that no unit needs any more, and says in its row that the log has holes from now on.
--
-- KEYS  log, row
-- ARGV  etag of the row for which this was found ('' for a later call of the same trim), new etag,
--       position of the first event of those at the end that stay, most entries to look at,
--       then the positions before it that stay as well
-- Reply done count      so many events were taken out, nothing is left to take out
--       more count      so many were taken out; call again
--       conflict        the row is not the one that was looked at, or the log is another: nothing was done
--
-- `allow-oom`: trimming is what a full server needs. The last entry stays, whatever the arguments say.

local log, row = KEYS[1], KEYS[2]
local etag, new_etag, first, count_max = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local CHUNK = 500

for n, kind in ipairs({ 'stream', 'hash' }) do
  local found = redis.call('TYPE', KEYS[n]).ok
  if found ~= kind and found ~= 'none' then
    return redis.error_reply('WRONGTYPE ' .. KEYS[n] .. ' is a ' .. found .. ', not a ' .. kind)
  end
end

local stored = redis.call('HMGET', row, 'etag', 'partial', 'pos')
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local function epoch_of(id) return string.match(id or '', '^(%d+)%-') end
if not last or epoch_of(last[1]) ~= epoch_of(first) or epoch_of(stored[3]) ~= epoch_of(first) then
  return { 'conflict' }
end
if etag == '' then
  if not stored[2] then return { 'conflict' } end
elseif stored[1] ~= etag then
  return { 'conflict' }
else
  redis.call('HSET', row, 'partial', '1', 'etag', new_etag)
end

local stays = { [last[1]] = true }
for n = 5, #ARGV do stays[ARGV[n]] = true end

local looked, count, from = 0, 0, '-'
while looked < count_max do
  local page = redis.call('XRANGE', log, from, '(' .. first, 'COUNT', CHUNK)
  if #page == 0 then return { 'done', count } end
  local gone = {}
  for _, entry in ipairs(page) do
    if not stays[entry[1]] then gone[#gone + 1] = entry[1] end
  end
  if #gone > 0 then count = count + redis.call('XDEL', log, unpack(gone)) end
  looked, from = looked + #page, '(' .. page[#page][1]
end
return { 'more', count }
