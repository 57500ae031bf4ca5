#!lua
-- Appends events to one session's log, compare-and-append. Part of layout version 1: the write protocol of every language.
--
-- KEYS  log, feed, row (only read)
-- ARGV  session, expected position ('new' when no log is known), its op ('' for none), own op,
--       then type, time in ms and data of each event
-- Reply ok first last          appended
--       landed first last      an earlier try of this call had already appended
--       moved position op      others appended behind the expected event: try again behind this tail, with the same own op
--       rewound position op    the expected event is gone, or the log this call began was deleted; the tail is this one
--                              ('' '' when the log is empty)
--       unknown position op    trimmed away: nobody can tell any more whether an earlier try got there
--
-- No `allow-oom`: a full server must refuse, and refuses before the first write, as every error here does.

local log, feed, row = KEYS[1], KEYS[2], KEYS[3]
local session, expected, expected_op, op = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local count = (#ARGV - 4) / 3

-- Never an exponent: tostring(1.7e12) would give one.
local function id_of(epoch, seq)
  return epoch .. '-' .. string.format('%.0f', seq)
end

local function parse(id)
  local epoch, seq = string.match(id, '^(%d+)%-(%d+)$')
  return epoch, tonumber(seq)
end

-- An entry nobody of ours wrote has no op; '' equals no op of ours.
local function op_of(entry)
  local fields = entry[2]
  for n = 1, #fields, 2 do
    if fields[n] == 'op' then return fields[n + 1] end
  end
  return ''
end

local function append(epoch, first)
  local id
  for n = 0, count - 1 do
    id = id_of(epoch, first + n)
    local type, time, data = ARGV[3 * n + 5], ARGV[3 * n + 6], ARGV[3 * n + 7]
    redis.call('XADD', log, id, 'type', type, 'time', time, 'op', op, 'data', data)
    redis.call('XADD', feed, '*', 's', session, 'i', id, 'o', op, 't', type)
  end
  return { 'ok', id_of(epoch, first), id }
end

local epoch, seq = parse(expected)
if #KEYS ~= 3 or count < 1 or count ~= math.floor(count) or op == '' or (expected ~= 'new' and not epoch) then
  return redis.error_reply('ERR append takes KEYS log feed row, ARGV session position|new op own-op (type time data)+')
end

local function wrong_type(n, kind)
  local found = redis.call('TYPE', KEYS[n]).ok
  if found ~= 'none' and found ~= kind then
    return redis.error_reply('WRONGTYPE ' .. KEYS[n] .. ' is a ' .. found .. ', not a ' .. kind)
  end
end

-- Nearly every call ends here, with the row unlooked at. What only the others need, functions too, stands further down:
-- 15 instead of 22 µs a call in a pipeline.
local found = redis.pcall('XREVRANGE', log, '+', '-', 'COUNT', 1)
local tail = found[1]
-- A position alone is no identity: after a fail-over another event can stand there.
if tail and tail[1] == expected and op_of(tail) == expected_op then
  return wrong_type(2, 'stream') or append(epoch, seq + 1)
end

local wrong = wrong_type(1, 'stream') or wrong_type(2, 'stream') or wrong_type(3, 'hash')
if wrong or found.err then return wrong or found end

-- Whether this call had begun a log that was deleted since: a try of it that comes late must not begin another.
local function begun_before()
  for earlier in string.gmatch(redis.call('HGET', row, 'begun') or '', '[^,]+') do
    if earlier == op then return true end
  end
  return false
end

-- The server's clock, but above every epoch this session had before, as far as the row and an emptied stream remember.
local function new_epoch(log_exists)
  local now = redis.call('TIME')
  local epoch = now[1] * 1000 + math.floor(now[2] / 1000)
  local pos = redis.call('HGET', row, 'pos')
  local folded = pos and string.match(pos, '^(%d+)%-')
  if folded then epoch = math.max(epoch, folded + 1) end
  if log_exists then
    local info = redis.call('XINFO', 'STREAM', log)
    for n = 1, #info, 2 do
      if info[n] == 'last-generated-id' then epoch = math.max(epoch, parse(info[n + 1]) + 1) end
    end
  end
  return string.format('%.0f', epoch)
end

if not tail then
  if expected ~= 'new' or begun_before() then return { 'rewound', '', '' } end
  return append(new_epoch(redis.call('EXISTS', log) == 1), 0)
end

local function answer(word)
  return { word, tail[1], op_of(tail) }
end

local tail_epoch, tail_seq = parse(tail[1])
if expected == 'new' then epoch, seq = tail_epoch, -1 end

if epoch ~= tail_epoch or tail_seq <= seq then return answer('rewound') end

local function entry_at(id)
  return redis.call('XRANGE', log, id, id)[1]
end

local function stands_whole(first, last)
  local entries = redis.call('XRANGE', log, first, last)
  for n = 1, #entries do
    if op_of(entries[n]) ~= op then return false end
  end
  return #entries == count
end

local wanted = entry_at(id_of(epoch, seq + 1))
if not wanted then return answer('unknown') end
if op_of(wanted) == op then
  local first, last = id_of(epoch, seq + 1), id_of(epoch, seq + count)
  if not stands_whole(first, last) then return answer('rewound') end
  return { 'landed', first, last }
end
if expected == 'new' and begun_before() then return answer('rewound') end
if seq >= 0 then
  local before = entry_at(id_of(epoch, seq))
  if not before then return answer('unknown') end
  if op_of(before) ~= expected_op then return answer('rewound') end
end
return answer('moved')
