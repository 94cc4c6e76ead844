"""Flower's SuperNode, for as long as the process that started it lives.

A program by itself (it imports nothing of ours, to start quickly): ``python -P watched.py <socket> <SuperNode's options>``. Its
standard input is a pipe that nobody writes to. When the other end is gone, however it went, the SuperNode ends and takes the
folder with its secret along. It listens on a socket that it was given, so that nobody else can have the port.
"""

import os
import shutil
import signal
import socket
import sys
import threading
import time
from typing import Any

GRACE = 5.0  # seconds in which a SuperNode may say goodbye


def end_with_parent() -> None:
    sys.stdin.buffer.read()
    shutil.rmtree(os.environ["FLWR_HOME"], ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def main() -> None:
    import uvicorn
    from flwr.supernode.cli.flower_supernode import flower_supernode

    threading.Thread(target=end_with_parent, daemon=True).start()
    door, run = socket.socket(fileno=int(sys.argv.pop(1))), uvicorn.Server.run

    def run_on_given_socket(self: uvicorn.Server, sockets: Any = None) -> None:
        run(self, sockets=[door])

    uvicorn.Server.run = run_on_given_socket  # type: ignore[method-assign]
    flower_supernode()


if __name__ == "__main__":
    main()
