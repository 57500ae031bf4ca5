#!lua flags=allow-oom
-- Removes consumers that no longer live from one feed, unless they still hold pointers: removing those would lose them.
--
-- KEYS  feed
-- ARGV  group, then the names of the consumers that may stay
-- Reply how many of the others are left, because they hold pointers.

local group, keep, left = ARGV[1], {}, 0
for n = 2, #ARGV do keep[ARGV[n]] = true end

for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], group)) do
  local field = {}
  for n = 1, #info, 2 do field[info[n]] = info[n + 1] end
  if not keep[field.name] then
    if field.pending == 0 then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, field.name)
    else
      left = left + 1
    end
  end
end
return left
