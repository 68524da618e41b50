"""Runs the two workers of worker_exits.c, several times, because what goes wrong at the end of a
process is a matter of luck.

    worker_exits_test.py PROGRAM return|exit|fork
"""

import json
import os
import secrets
import socket
import subprocess
import sys

HANG_S = 60
TIMES = 5


def run_job(program, way):
    sockets = [socket.socket() for _ in range(2)]
    for reserved in sockets:  # nobody else gets these ports, and a worker may listen there
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{reserved.getsockname()[1]}" for reserved in sockets]
    secret = secrets.token_hex(32)
    workers = []
    for i in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}}
        variables = {**os.environ, "TUTTI_JOB_SECRET": secret, "TF_CONFIG": json.dumps(config)}
        workers.append(subprocess.Popen([program, way], env=variables))
    try:
        codes = [worker.wait(HANG_S) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        for reserved in sockets:
            reserved.close()
    assert codes == [0, 0], codes


if __name__ == "__main__":
    for _ in range(TIMES):
        run_job(*sys.argv[1:])
