"""How does a worker of another host reach a server that listens on a socket alone?

`python -m tests.chaos.bridge SOCKET ADDRESS` prints the port that it listens on and
carries bytes both ways. Frozen by SIGSTOP it is a network that delivers nothing and says
nothing; what was under way arrives when it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def _serve(socket: str, address: str) -> None:
    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            there, back = await asyncio.open_unix_connection(socket)
        except OSError:  # the server is down: so is the connection
            writer.close()
            return
        await asyncio.gather(_carry(reader, back), _carry(there, writer))

    server = await asyncio.start_server(connected, address, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2]))
