"""The process that runs jobs: what is what in `runworker`.

    supervisor    starts, pokes, ends and replaces slots; runs no handler, no hook
    runs          what follows when a run begins, loses its lease, is reported, or dies
    template      Django preloaded, forks a slot in milliseconds (or spawns one)
    nursery       has children made by the template, and keeps the host's services
    guardian      each slot's parent: sees how it died, ends its whole tree
    gauge         what a run takes, and whether that is more than it may
    slot          claims a job, runs it, reports, claims the next
    child         what the supervisor knows of a slot, or of the duties
    runner        one run as a pipeline: handler, payload, call, outcome, transition
    judging       which transition an outcome stands for
    limiting      what a slot does so that its run keeps to its limits
    cgroups       the control group of a run; `hierarchies`: where one can be made
    telling       what the worker's own output says of a run's end
    asking        which slot looks for work
    crew          the children: made, known, replaced
    errands       what the duties were asked and have not done
    stopping      signals, the drain and its end
    heartbeat     renews the leases of living slots, finds those taken away
    listener      LISTEN, the worker's session lock, the poll and the beat
    logpump       the slots' output, stored in chunks; `logcutting`: where they are cut,
                  `logkeeping`: what is kept of them
    duties        a child of its own for rescue and maintenance: they run final hooks
    postman       a thread of the duties that sends notices
    registration  the worker's row
    preflight     can this database be worked on at all?
    locks         own connections, and the session locks that die with them
    outages       trouble with the database: told once, tried again ever more seldom
    readiness     the file that says that jobs are taken

Processes: supervisor ─┬─ template
                       ├─ guardian ── slot ── whatever the job starts
                       ├─ guardian ── duties
                       └─ host services (left running when the worker ends)
"""
