-- Return the ring buffer of minutes: MessagePack rows of minute, done, skipped, dead, bytes.
return call('HVALS', T .. 'minutes')
