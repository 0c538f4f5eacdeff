"""Commands that start at once: a process with everything loaded forks for each of them.

    python tests/cli/warm_commands.py serve SOCKET     # forks for each request, one at a time
    python tests/cli/warm_commands.py SOCKET ARGS...   # one request: folder, arguments and output go to the server

A command runs in the process group of whoever asked for it: to kill the group is to kill all of it at once.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback


def ask(path: str, arguments: list[str]) -> int:
    """Have a command run, and return its exit code."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        request = json.dumps({"folder": os.getcwd(), "arguments": arguments, "group": os.getpgrp()})
        socket.send_fds(server, [request.encode()], [1, 2])
        return int(server.recv(64) or b"1")


def serve(path: str) -> None:
    """Run commands, one after the other, each in a process of its own."""
    import optensemble.cli.main
    import optensemble.jobs.audit
    import optensemble.jobs.decide
    import optensemble.jobs.refit
    import optensemble.jobs.update
    import optensemble.report.tables.audit  # noqa: F401

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        while True:
            client, _ = listening.accept()
            with client:
                request, outputs, _, _ = socket.recv_fds(client, 1 << 16, 2)
                child = os.fork()
                if not child:
                    _run(json.loads(request), outputs)
                for output in outputs:
                    os.close(output)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                try:
                    client.sendall(str(code % 256).encode())
                except OSError:
                    pass  # the one who asked was killed


def _run(request: dict[str, object], outputs: list[int]) -> None:
    """Become the command; never returns."""
    from optensemble.cli.main import main

    code = 70
    try:
        os.setpgid(0, int(str(request["group"])))
        os.chdir(str(request["folder"]))
        for number, output in enumerate(outputs, start=1):
            os.dup2(output, number)
        sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        sys.argv = ["optensemble", *map(str, request["arguments"])]  # type: ignore[call-overload]
        main()
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
