"""A hostile agent: tries what it is told to and says of each attempt how it went."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206


def read(path: str) -> str:
    with open(path, "rb") as file:
        return repr(file.read(200))


def write(path: str) -> str:
    with open(path, "ab") as file:
        file.write(b"mine now")
    return "written"


def make(path: str) -> str:
    with open(os.path.join(path, "planted"), "xb"):
        return "made"


def remove(path: str) -> str:
    os.rename(path, f"{path}.gone")
    return "renamed"


def names(path: str) -> str:
    return repr(os.listdir(path))


def find(path: str) -> str:
    if os.path.basename(path) in os.listdir(os.path.dirname(path)):
        return "found"
    raise FileNotFoundError(path)


def mode(path: str) -> str:
    os.chmod(path, 0o777)
    return "opened"


def connect(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(path)
        return "connected"


def environ(pid: int) -> str:
    return read(f"/proc/{pid}/environ")


def memory(pid: int) -> str:
    with open(f"/proc/{pid}/mem", "rb"):
        return "opened"


def descriptors(pid: int) -> str:
    return names(f"/proc/{pid}/fd")


def folder(pid: int) -> str:
    return names(f"/proc/{pid}/cwd/")


def kill(pid: int) -> str:
    os.kill(pid, signal.SIGKILL)
    return "killed"


def kill_all(pid: int) -> str:
    os.killpg(pid, signal.SIGKILL)
    return "killed"


def trace(pid: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    for request in (PTRACE_ATTACH, PTRACE_SEIZE):
        if libc.ptrace(request, pid, None, None) == 0:
            return "attached"
    raise OSError(ctypes.get_errno(), "ptrace")


def listen(port: int) -> str:
    for address in ("127.0.0.1", "0.0.0.0"):
        for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with socket.socket() as taken:
                if option is not None:
                    taken.setsockopt(socket.SOL_SOCKET, option, 1)
                try:
                    taken.bind((address, port))
                    taken.listen()
                except OSError as error:
                    last = error
                else:
                    return f"listens on {address}"
    raise last


def become_root(program: str) -> str:
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    if done.stdout.strip() != "0":
        raise PermissionError(f"the program ran as {done.stdout.strip()}")
    return "root"


def switch(uid: int) -> str:
    os.setresuid(uid, uid, uid)
    return "switched"


def debug(_: int) -> str:
    with open("/proc/sys/kernel/core_pattern", "w") as file:
        file.write("|/bin/true")
    return "set"


ATTEMPTS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        *(read, write, make, remove, names, find, mode, connect, environ, memory),
        *(descriptors, folder, kill, kill_all, trace, listen, become_root, switch),
        debug,
    )
}


def attempt(name: str, target: object) -> dict[str, object]:
    """Try it in a process of its own, which may pay for it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = {"refused": False, "how": ATTEMPTS[name](target)}
        except (OSError, subprocess.SubprocessError) as error:
            said = {"refused": True, "how": f"{type(error).__name__}: {error}"}
        os.write(writer, json.dumps(said).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    found: dict[str, object] = json.loads(text or b'{"refused": false, "how": "died"}')
    return found


def bomb() -> dict[str, object]:
    made = []
    try:
        while len(made) < 3000:
            if (pid := os.fork()) == 0:
                time.sleep(3600)
                os._exit(0)
            made.append(pid)
        return {"refused": False, "how": f"{len(made)} processes"}
    except OSError as error:
        return {"refused": True, "how": str(error), "made": len(made)}
    finally:
        for pid in made:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/bomb":
            self.answer(bomb())
        elif self.path == "/eat":
            self.answer({"eaten": len(bytearray(400 * 1024 * 1024))})
        else:
            self.answer({"name": "attacker", "pid": os.getpid()})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer([attempt(name, target) for name, target in body])

    def answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    print("attacker starts", flush=True)
    address = (os.environ["HOST"], int(os.environ["PORT"]))
    ThreadingHTTPServer(address, Handler).serve_forever()
    sys.exit(0)
