"""Follow: the readers of the lake's own records, each of which tells of one kind of work.

The lake keeps what was done: commits with their ledger, results of checks, maintenance, decisions about dead letters,
resyncs. Events are made of that, by a process of its own, so that the stream neither waits for lineage nor loses it
when the service is away: it is told later. The same record makes the same event, which the store keeps once.
"""
