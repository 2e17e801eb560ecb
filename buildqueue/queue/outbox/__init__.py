"""What is told to the outside, when, and how often?

    keys       what makes two notices the same one (pure)
    bodies     what a notice says (pure)
    wording    the commands that a person may type, as mails and terminals tell them (pure)
    telling    writes notices, in the transaction of what they tell
    signing    the headers that prove where a webhook comes from (pure)
    webhooks   one POST, bounded
    deadlines  for the whole of an exchange, however slow each part of it
    mails      one e-mail
    sending    takes due notices one at a time and sends them; a duty's call

A notice is committed together with what it tells, so neither exists without the other:
whoever dies afterwards, a duty sends it. Each is written once per destination and sent
until it is taken. Delivery is at least once: a process that dies between the receiver's
answer and the row's update has it sent again, with the same id, by which receivers know it.
"""

from __future__ import annotations

from .sending import resend, seconds_to_next, send_due
from .telling import tell, tell_action, tell_change, tell_question

__all__ = [
    "resend",
    "seconds_to_next",
    "send_due",
    "tell",
    "tell_action",
    "tell_change",
    "tell_question",
]
