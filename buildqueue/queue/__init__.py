"""The engine: how a job gets from its INSERT to its end.

    enqueueing   puts a job into the table, in the caller's transaction
    wakeups      hints to workers after the commit; polling is the truth
    claiming     which jobs may be taken, in which order
    transitions  the one writer of a job's status
    leases       the right to run a job until a moment (the essay on fencing)
    handlers     which function runs a kind, and what happens when the job ends
    outcomes     what a handler may answer
    context      what a handler gets: log, steps, its lease
    failures     from an exception to an outcome, and the delay before a retry
    recovery     what became of runs whose process or worker died
    verbs        what people may do to a job
    database     which connection jobs live on
    logs         a run's output, in chunks
    logmarks     which step printed what
    stats        numbers for people

The engine knows kinds, payloads and handlers; it never knows what an agent is.
"""
