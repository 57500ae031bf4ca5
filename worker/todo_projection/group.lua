#!lua flags=allow-oom
-- Creates the group on one feed that lacks it, at 0: what was appended before is read, never skipped.
--
-- KEYS  feed
-- ARGV  group
-- Reply created | there
--
-- A script, because XGROUP CREATE alone is refused by a full server even where the group is there already, and a worker
-- that can't come back after an error can't drain what fills the server.

local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if type(made) ~= 'table' or not made.err then return 'created' end
if string.find(made.err, 'BUSYGROUP', 1, true) then return 'there' end
return redis.error_reply(made.err .. ' (feed ' .. KEYS[1] .. ')')
