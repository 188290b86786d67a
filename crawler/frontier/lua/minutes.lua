-- The ring of minutes: packed rows of minute, done, skipped, dead, bytes.
return call('HVALS', T .. 'minutes')
