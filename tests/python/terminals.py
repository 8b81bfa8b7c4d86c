"""Programs as they look on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios


def on_terminal(command: list, columns: int = 80, **variables: str) -> str:
    """All that a terminal of this width gets, stdout and stderr in their order."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | variables
    child = subprocess.Popen(
        list(map(str, command)), stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True
    )
    os.close(slave)
    written = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the last writer has closed it
            break
        if not part:
            break
        written += part
    os.close(master)
    child.wait()
    return written.decode()


def screen(text: str) -> list[str]:
    """The lines as they stand in the end: what was taken away is gone."""
    lines = [
        line.rpartition("\r")[2].rpartition("\033[K")[2] for line in text.replace("\r\n", "\n").split("\n")
    ]
    return [re.sub(r"\033\[[0-9;]*m", "", line) for line in lines]
