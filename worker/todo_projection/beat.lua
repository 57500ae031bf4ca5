#!lua flags=allow-oom
-- Writes the beat of one worker. A script, because HSET alone is refused by a full server, and those who drain it must
-- not look dead.
--
-- KEYS  workers
-- ARGV  name, beat

return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
