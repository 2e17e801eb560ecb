"""Is no message between the processes of a worker lost or cut?"""

from __future__ import annotations

import socket

from buildqueue.worker.channel import Channel


def pair() -> tuple[Channel, Channel]:
    one, other = socket.socketpair()
    return Channel(one), Channel(other)


def test_messages_that_come_together_are_handed_out_one_by_one() -> None:
    ours, its = pair()
    for number in range(3):
        its.send(number=number)
    its.close()
    assert [ours.next() for _ in range(4)] == [
        {"number": 0},
        {"number": 1},
        {"number": 2},
        None,
    ]
    ours.close()


def test_a_message_that_comes_in_pieces_is_put_together() -> None:
    one, other = socket.socketpair()
    ours = Channel(one)
    other.sendall(b'{"a": ')
    assert ours.receive() == []
    other.sendall(b'1}\n{"b"')
    assert ours.receive() == [{"a": 1}]
    other.close()
    assert ours.receive() == []
    assert ours.closed
    ours.close()


def test_what_was_sent_before_the_end_is_read_after_it() -> None:
    ours, its = pair()
    its.send(last=True)
    its.close()
    ours.send(nobody="there")
    assert ours.rest() == [{"last": True}]
    assert ours.closed
    ours.close()
