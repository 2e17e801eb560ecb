"""Does every promise hold while everything dies? Real workers, real faults, hard checks.

python -m tests.chaos --minutes 10 --seed 1

payloads    what the jobs are, and which effects each must leave behind
jobs        their handlers, as an app of the host would have them
models      the ledger: one row an effect in the database
counter     the outside world: a process that counts what happens
server      a durable PostgreSQL of its own, restarted on purpose
bridge      the way to it by TCP, for workers of another host
network     the other host: a network of its own that can be cut
fleet       the supervisors: started, frozen, killed, replaced
work        keeps jobs flowing
people      approve, answer, cancel, pause, resume, retry
faults      what goes wrong, when, and whom it hits
history     all that was left behind, as plain values; `loading` reads it
invariants  what must hold of it
report      what is printed
unfenced    takes the fence out, to show that the checks can fail
run         all of them together
"""
