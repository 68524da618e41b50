"""Real worker processes that are killed, stopped, starved and disturbed.

    faults_test.py FAULT_WORKER TEST [NUMBER]

The seed of what is random is printed; TUTTI_TEST_SEED repeats a run. Times are printed as figures; a
test fails on a wrong outcome, or where something hangs.
"""

import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import time

from job import HANG_S, Job, abstract_sockets, percentile

PROGRAM = sys.argv[1]
NUMBER = int(sys.argv[3]) if len(sys.argv) > 3 else None

SEED = int(os.environ.get("TUTTI_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
RANDOM = random.Random(SEED)
ERROR = r"^error (\w+) rank=(-?\d+) calls=\d+ @(\d+): (.*)"


def pause(seconds):
    """Lets the workers run: what is tested is what happens meanwhile."""
    time.sleep(seconds)


def kill_one(workers, variables, options, kill=signal.SIGKILL):
    """Kills a random worker at a random moment. Gives the survivors' seconds until they had the
    error, and until they had ended."""
    with Job(workers, [PROGRAM, *options], variables) as job:
        job.wait_ready()
        pause(RANDOM.uniform(0, 0.4))
        victim = RANDOM.choice(job.workers)
        killed = time.monotonic()
        victim.send(kill)
        told, ended = [], []
        for worker in job.workers:
            if worker is victim:
                continue
            _, found = worker.wait_for_line(ERROR)
            assert found[1] == "UNAVAILABLE", found[0]
            assert int(found[2]) == victim.index, (victim.index, found[0])
            assert f"rank {victim.index}" in found[4], found[0]
            told.append(int(found[3]) * 1e-9 - killed)
            assert worker.wait_for_end() == 3, worker.output()
            ended.append(worker.ended - killed)
        job.check_nothing_left(forked_children="--fork-child" in options)
    return told, ended


def killed_workers_are_named():
    runs = NUMBER or 20
    for transport in ("shared_memory", "tcp"):
        told, ended = [], []
        for run in range(runs if transport == "shared_memory" else max(2, runs // 4)):
            options = ["--elements", RANDOM.choice(["100", "100000", "2000000"])]
            if run % 4 == 3:
                options.append("--fork-child")
            new_told, new_ended = kill_one(RANDOM.choice([2, 3, 4]),
                                           {"TUTTI_TRANSPORT": transport}, options)
            told += new_told
            ended += new_ended
        print(f"{transport}: survivors knew after {percentile(told, 0.5) * 1e3:.0f} ms (median), "
              f"{max(told) * 1e3:.0f} ms (longest of {len(told)}), and had ended after "
              f"{max(ended) * 1e3:.0f} ms at the latest")


def a_stopped_worker_is_reported_as_silent():
    with Job(3, [PROGRAM], {"TUTTI_SILENCE_LIMIT": "3s"}) as job:
        job.wait_ready()
        victim = RANDOM.choice(job.workers)
        stopped = time.monotonic()
        victim.send(signal.SIGSTOP)
        for worker in job.workers:
            if worker is victim:
                continue
            at, found = worker.wait_for_line(ERROR)
            assert found[1] == "UNAVAILABLE" and int(found[2]) == victim.index, found[0]
            assert "silent" in found[4], found[0]
            print(f"worker {worker.index} knew after {at - stopped:.1f} s: {found[4]}")
        pause(max(0, 10 - (time.monotonic() - stopped)))
        victim.send(signal.SIGCONT)
        _, found = victim.wait_for_line(ERROR)
        print(f"the stopped worker: {found[4]}")
        assert victim.wait_for_end() == 3
        job.check_nothing_left()


def a_stopped_worker_goes_on_within_the_limit():
    with Job(3, [PROGRAM, "--seconds", "12"], {"TUTTI_SILENCE_LIMIT": "30s"}) as job:
        job.wait_ready()
        victim = RANDOM.choice(job.workers)
        victim.send(signal.SIGSTOP)
        pause(10)
        victim.send(signal.SIGCONT)
        for worker in job.workers:
            worker.wait_for_line("^done ")
            assert worker.wait_for_end() == 0, worker.output()
        job.check_nothing_left()


def nobody_is_declared_dead_on_loaded_cores():
    """Eight workers and as many busy loops as twice the cores."""
    seconds = NUMBER or 15
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(2 * os.cpu_count())]
    try:
        with Job(8, [PROGRAM, "--seconds", str(seconds)]) as job:
            job.wait_ready()
            for worker in job.workers:
                _, found = worker.wait_for_line(r"^done calls=(\d+)", seconds + HANG_S)
                assert worker.wait_for_end() == 0, worker.output()
            print(f"{found[1]} calls of eight ranks in {seconds} s under load")
            job.check_nothing_left()
    finally:
        for process in load:
            process.kill()
            process.wait()


def connect(address):
    if address.startswith("@"):
        stranger = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stranger.connect("\0" + address[1:])
    else:
        host, _, port = address.rpartition(":")
        stranger = socket.create_connection((host, int(port)), 5)
    stranger.settimeout(10)
    return stranger


def what_a_stranger_gets(address, bytes_sent):
    """All that is answered before the connection is cut off."""
    answer = b""
    try:
        with connect(address) as stranger:
            stranger.sendall(bytes_sent)
            while len(answer) < 1 << 20:
                part = stranger.recv(4096)
                if not part:
                    break
                answer += part
    except OSError:
        pass
    return answer


def strangers_get_nothing_and_the_job_goes_on():
    with Job(2, [PROGRAM, "--seconds", "8"], {"TUTTI_TRANSPORT": "tcp"}) as job:
        job.wait_ready()
        addresses = [address for address in job.ports.addresses()]
        listening = listening_ports([worker.pid for worker in job.workers])
        addresses += [address for address in listening if address not in addresses]
        addresses += sorted(abstract_sockets() - job.sockets_before)
        print("listening:", ", ".join(addresses))
        for address in listening:
            assert address.startswith("127.0.0.1:"), f"{address} is not loopback"
        silent = []
        for address in addresses:
            for attempt in (b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                            RANDOM.randbytes(5000), b"\x00" * 100, b"\xff" * 100000,
                            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 64):
                try:
                    if attempt == b"":
                        silent.append(connect(address))  # says nothing, and stays
                    else:
                        answer = what_a_stranger_gets(address, attempt)
                        assert job.secret.encode() not in answer
                except OSError:
                    continue
            try:
                context = ssl._create_unverified_context()
                with connect(address) as plain, context.wrap_socket(plain) as stranger:
                    stranger.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 64)
                    stranger.recv(4096)
            except (OSError, ssl.SSLError):
                pass
        for worker in job.workers:
            worker.wait_for_line("^done ")
            assert worker.wait_for_end() == 0, worker.output()
        for stranger in silent:
            stranger.close()
        job.check_nothing_left()


def listening_ports(pids):
    """Where these processes listen with TCP."""
    inodes = set()
    for pid in pids:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
            except OSError:
                continue
            if found:
                inodes.add(found[1])
    addresses = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}", encoding="utf-8") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    host, port = fields[1].split(":")
                    raw = bytes.fromhex(host)
                    if table == "tcp":
                        text = socket.inet_ntop(socket.AF_INET, raw[::-1])
                    else:
                        words = b"".join(raw[i:i + 4][::-1] for i in range(0, 16, 4))
                        text = socket.inet_ntop(socket.AF_INET6, words)
                    addresses.append(f"{text}:{int(port, 16)}")
    return addresses


print(f"seed {SEED} (TUTTI_TEST_SEED={SEED} repeats it)")
globals()[sys.argv[2]]()
