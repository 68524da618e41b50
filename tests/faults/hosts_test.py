"""Two hosts, made of network namespaces: workers that share no loopback and no Unix sockets.

    hosts_test.py FAULT_WORKER TUTTI [TEST...]      TUTTI is the command

Exit status 77 (skipped) where the kernel or the user's rights give no network namespaces.
"""

import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

PROGRAM, TUTTI = sys.argv[1:3]
HANG_S = 60
ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT = 2222


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True)


class Hosts:
    """Two namespaces with a cable between them, and as many workers in each."""

    made = 0

    def __init__(self, workers_per_host=1):
        Hosts.made += 1
        self.workers_per_host = workers_per_host
        mark = f"{os.getpid()}n{Hosts.made}"
        self.names = (f"tutti{mark}a", f"tutti{mark}b")
        self.ends = (f"tva{mark}", f"tvb{mark}")

    def __enter__(self):
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1])
        for name, end, address in zip(self.names, self.ends, ADDRESSES):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *failure):
        for name in self.names:
            ip("netns", "del", name, check=False)

    def cut(self):
        ip("-n", self.names[0], "link", "set", self.ends[0], "down")

    def blackhole(self, *hosts):
        """What these hosts send goes to a machine that there is not: it is lost, and nobody is
        told."""
        for host in hosts:
            ip("-n", self.names[host], "neigh", "replace", ADDRESSES[1 - host], "lladdr",
               "02:00:00:00:00:99", "dev", self.ends[host], "nud", "permanent")

    def sent_bytes(self):
        """What has gone over the cable, both ways."""
        total = 0
        for name, end in zip(self.names, self.ends):
            links = json.loads(ip("-n", name, "-s", "-j", "link", "show", "dev", end).stdout)
            total += links[0]["stats64"]["tx"]["bytes"]
        return total

    def start(self, worker, *options, program=PROGRAM, **variables):
        addresses = [f"{address}:{PORT + place}" for address in ADDRESSES
                     for place in range(self.workers_per_host)]
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": worker}}
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("TUTTI_")}
        environment.update({"TF_CONFIG": json.dumps(config), **variables})
        host = self.names[worker // self.workers_per_host]
        return subprocess.Popen(["ip", "netns", "exec", host, program, *options],
                                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def listening(self, worker):
        """The local addresses of this host's listening sockets, without the ports."""
        table = subprocess.run(["ip", "netns", "exec", self.names[worker], "cat", "/proc/net/tcp",
                                "/proc/net/tcp6"], capture_output=True, text=True, check=True)
        fields = (line.split() for line in table.stdout.splitlines())
        return {line[1].partition(":")[0] for line in fields if len(line) > 3 and line[3] == "0A"}


class HostsTest(unittest.TestCase):
    def setUp(self):
        self.hosts = self.enterContext(Hosts())
        self.secret = {"TUTTI_JOB_SECRET": secrets.token_hex(32)}

    def start(self, *options, **variables):
        workers = [self.hosts.start(worker, *options, **self.secret, **variables)
                   for worker in (0, 1)]
        for worker in workers:
            self.addCleanup(worker.stdout.close)
            self.addCleanup(worker.wait)
            self.addCleanup(worker.kill)
        return workers

    def test_workers_on_two_hosts_reach_each_other_over_tcp(self):
        workers = self.start("--seconds", "2", TUTTI_LOG_LEVEL="info")
        outputs = [worker.communicate(timeout=HANG_S)[0] for worker in workers]
        for worker, output in zip(workers, outputs):
            self.assertEqual(worker.returncode, 0, outputs)
            self.assertRegex(output, r"uses 1 tcp")
            self.assertRegex(output, r"(?m)^done calls=")

    def test_sockets_listen_only_where_the_other_host_is(self):
        workers = self.start()  # they work until the end of the test kills them
        for worker in workers:
            while not worker.stdout.readline().startswith("ready "):
                self.assertIsNone(worker.poll())
        for worker, address in enumerate(ADDRESSES):
            # As the kernel's tables write it; IPv6 wraps the same four bytes.
            wanted = socket.inet_aton(address)[::-1].hex().upper()
            listening = self.hosts.listening(worker)
            self.assertTrue(listening)
            for found in listening:
                self.assertTrue(found.endswith(wanted), (found, wanted))

    def test_a_cut_cable_is_silence_on_both_sides(self):
        workers = self.start()
        for worker in workers:
            while not worker.stdout.readline().startswith("ready "):
                self.assertIsNone(worker.poll())
        self.hosts.cut()
        for worker, other in zip(workers, (1, 0)):
            output, _ = worker.communicate(timeout=HANG_S)
            self.assertEqual(worker.returncode, 3, output)
            self.assertRegex(output, rf"error UNAVAILABLE rank={other} .*has been silent")

    def test_a_blackholed_host_is_silence_on_both_sides(self):
        # Of one way alone, too: what arrives at the other end is not what is answered.
        for hosts in ((0, 1), (0,), (1,)):
            with self.subTest(hosts=hosts), Hosts() as self.hosts:
                workers = self.start()
                for worker in workers:
                    while not worker.stdout.readline().startswith("ready "):
                        self.assertIsNone(worker.poll())
                self.hosts.blackhole(*hosts)
                for worker, other in zip(workers, (1, 0)):
                    output, _ = worker.communicate(timeout=HANG_S)
                    self.assertEqual(worker.returncode, 3, output)
                    self.assertRegex(output, rf"error UNAVAILABLE rank=({other}|{1 - other}) ")

    def test_without_a_secret_no_job_starts_between_hosts(self):
        self.secret = {}
        for worker in self.start():
            output, _ = worker.communicate(timeout=HANG_S)
            self.assertEqual(worker.returncode, 3)
            self.assertRegex(output, "error FAILED_PRECONDITION .*has no job secret.*openssl rand")

    def test_a_host_that_cannot_be_reached_is_named(self):
        self.hosts.cut()
        _, alone = self.start(TUTTI_JOIN_TIMEOUT="2s")
        output, _ = alone.communicate(timeout=HANG_S)
        self.assertEqual(alone.returncode, 3)
        self.assertRegex(output, rf"error UNAVAILABLE .*{re.escape(ADDRESSES[0])}:{PORT}")


class SeveralRanksPerHostTest(unittest.TestCase):
    """Two hosts of two ranks: a segment in each, and calls that go from host to host."""

    def setUp(self):
        self.hosts = self.enterContext(Hosts(2))
        self.secret = {"TUTTI_JOB_SECRET": secrets.token_hex(32)}

    def start(self, *options, **variables):
        workers = [self.hosts.start(worker, *options, **self.secret, **variables)
                   for worker in range(4)]
        for worker in workers:
            self.addCleanup(worker.stdout.close)
            self.addCleanup(worker.wait)
            self.addCleanup(worker.kill)
        return workers

    def start_and_await(self, *options, **variables):
        workers = self.start(*options, **variables)
        for worker in workers:
            while not worker.stdout.readline().startswith("ready "):
                self.assertIsNone(worker.poll())
        return workers

    def bytes_per_sum(self, **variables):
        """Of a sum of 1 MiB, and the seconds that it takes."""
        workers = self.start_and_await("--seconds", "2", "--elements", str(1 << 18), **variables)
        before = self.hosts.sent_bytes()
        outputs = [worker.communicate(timeout=HANG_S)[0] for worker in workers]
        self.assertEqual([worker.returncode for worker in workers], [0] * 4, outputs)
        calls = int(re.search(r"(?m)^done calls=(\d+)", outputs[0]).group(1))
        return (self.hosts.sent_bytes() - before) / calls, 2 / calls

    def test_bytes_go_from_host_to_host_once(self):
        once, seconds = self.bytes_per_sum()
        often, flat_seconds = self.bytes_per_sum(
            TUTTI_COLLECTIVE_TABLE="rows: all_reduce hosts any any flat")
        print(f"all_reduce of 1 MiB, 2 hosts x 2 ranks: {once / 2**20:.2f} MiB and "
              f"{seconds * 1e3:.2f} ms by hosts, {often / 2**20:.2f} MiB and "
              f"{flat_seconds * 1e3:.2f} ms by ranks")
        self.assertGreater(once, 1 << 20)
        self.assertLess(once, 0.6 * often)

    def test_calls_go_from_host_to_host_where_hosts_have_several_ranks(self):
        workers = self.start("--seconds", "1", TUTTI_LOG_LEVEL="info")
        outputs = [worker.communicate(timeout=HANG_S)[0] for worker in workers]
        for worker, output in zip(workers, outputs):
            self.assertEqual(worker.returncode, 0, outputs)
            self.assertRegex(output, r"uses 1 ring, 2 tcp, from host to host")

    def test_a_killed_leader_is_named_to_all(self):
        workers = self.start_and_await()
        workers[2].kill()
        for worker in (workers[0], workers[1], workers[3]):
            output, _ = worker.communicate(timeout=HANG_S)
            self.assertEqual(worker.returncode, 3, output)
            self.assertRegex(output, r"error UNAVAILABLE rank=2 ")

    def test_a_killed_rank_that_is_no_leader_is_named_to_all(self):
        workers = self.start_and_await()
        workers[1].kill()
        for worker in (workers[0], workers[2], workers[3]):
            output, _ = worker.communicate(timeout=HANG_S)
            self.assertEqual(worker.returncode, 3, output)
            self.assertRegex(output, r"error UNAVAILABLE rank=1 ")

    def test_whoever_dies_in_a_call_of_many_chunks_is_named_to_all(self):
        # One call of 16 MiB after another: whenever it happens, it is in one of them.
        for killed in (1, 2):
            with self.subTest(killed=killed), Hosts(2) as self.hosts:
                workers = self.start_and_await("--elements", str(1 << 22))
                workers[killed].kill()
                for worker in workers[:killed] + workers[killed + 1:]:
                    output, _ = worker.communicate(timeout=HANG_S)
                    self.assertEqual(worker.returncode, 3, output)
                    self.assertRegex(output, rf"error UNAVAILABLE rank={killed} ")

    def test_a_cut_cable_is_silence_on_both_sides(self):
        workers = self.start_and_await()
        self.hosts.cut()
        for worker in workers:
            output, _ = worker.communicate(timeout=HANG_S)
            self.assertEqual(worker.returncode, 3, output)
            self.assertRegex(output, r"error UNAVAILABLE rank=\d .*has been silent")

    def output_of_rank_0(self, *words):
        """What `tutti bench` says, whose other workers say nothing."""
        workers = self.start("bench", "--join", *words, program=TUTTI, TUTTI_LOG_LEVEL="error")
        texts = [worker.communicate(timeout=HANG_S)[0] for worker in workers]
        self.assertEqual([worker.returncode for worker in workers], [0] * 4, texts)
        self.assertEqual(texts[1:], [""] * 3)
        return texts[0]

    def test_the_command_tunes_calls_between_hosts(self):
        text = self.output_of_rank_0("broadcast", "all_reduce", "--tune", "-", "--seconds", "0.5",
                                     "--max", "64K", "--factor", "16")
        self.assertRegex(text, "# all_reduce over mixed, 4 ranks: [0-9]+ choices, ")
        for name, chunk in (("broadcast", "4MiB"), ("all_reduce", "1MiB")):
            self.assertRegex(text, rf"# {name} over hosts, 4 ranks: 8 choices, .*\n"
                                   rf"#   before: up to any hierarchical {chunk}\n#   after:  ")
        self.assertIn("all_reduce over mixed and hosts between 4 ranks\n", text)

    def test_the_command_says_between_how_many_hosts_it_measures(self):
        report = json.loads(self.output_of_rank_0("all_gather_into", "--max", "4K", "--iterations",
                                                  "10", "--json"))
        self.assertEqual((report["hosts"], report["workers"], report["transport"]),
                         (2, 4, "mixed"))
        self.assertEqual({row["out_of_place"]["wrong"] for row in report["rows"]}, {0})


class NodesTest(unittest.TestCase):
    """`tutti run` on each of two hosts, two workers on each."""

    COORDINATOR = f"{ADDRESSES[0]}:29500"

    def setUp(self):
        self.hosts = self.enterContext(Hosts())
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.secret = self.folder / "secret"
        self.secret.write_text(secrets.token_hex(32) + "\n")
        self.secret.chmod(0o600)

    def spawn(self, words, **variables):
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("TUTTI_", "TF_"))}
        process = subprocess.Popen(words, env={**environment, **variables}, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def node(self, rank, *words, **variables):
        return self.spawn(["ip", "netns", "exec", self.hosts.names[rank], TUTTI, "run", "--nodes",
                           "2", "--node-rank", str(rank), "--coordinator", self.COORDINATOR,
                           "--secret-file", str(self.secret), "--workers", "2", "--", PROGRAM,
                           *words], **variables)

    def by_ssh(self, *words, **variables):
        ssh = self.folder / "ssh"
        ssh.write_text("#!/bin/sh\nshift 2\nhost=$1\nshift\n"
                       "exec ip netns exec \"$host\" env -u FOLDER sh -c \"$*\"\n")
        ssh.chmod(0o755)
        return self.spawn([TUTTI, "run", "--hosts", ",".join(self.hosts.names), "--coordinator",
                           self.COORDINATOR, "--secret-file", str(self.secret), "--workers", "2",
                           "--", PROGRAM, *words],
                          **{"PATH": f"{self.folder}:{os.environ['PATH']}", **variables})

    def until_ready(self, process, workers):
        waited = set(workers)
        said = ""
        while waited:
            line = process.stdout.readline()
            said += line
            self.assertTrue(line, said)
            ready = re.match(r"\[worker (\d)\] ready ", line)
            if ready:
                waited.discard(int(ready.group(1)))

    def ended(self, process):
        output, _ = process.communicate(timeout=HANG_S)
        return process.returncode, output

    def test_the_workers_of_both_are_one_job(self):
        ends = [self.ended(node) for node in [self.node(rank, "--seconds", "0.5")
                                              for rank in (0, 1)]]
        for rank, (status, output) in enumerate(ends):
            self.assertEqual(status, 0, ends)
            for worker in (2 * rank, 2 * rank + 1):
                self.assertRegex(output, rf"(?m)^\[worker {worker}\] done calls=")

    def test_a_node_that_does_not_come_is_named(self):
        for rank in (0, 1):
            status, output = self.ended(self.node(rank, TUTTI_JOIN_TIMEOUT="1s"))
            self.assertEqual(status, 3, output)
            self.assertIn("worker:2 at node-1:1" if rank == 0 else self.COORDINATOR, output)

    def test_a_node_that_dies_ends_the_other(self):
        nodes = [self.node(rank) for rank in (0, 1)]
        for rank, node in enumerate(nodes):
            self.until_ready(node, (2 * rank, 2 * rank + 1))
        nodes[1].kill()
        status, output = self.ended(nodes[0])
        self.assertEqual(status, 3, output)
        self.assertRegex(output, r"error UNAVAILABLE rank=[23] ")

    def test_an_interrupt_of_one_ends_both(self):
        nodes = [self.node(rank) for rank in (0, 1)]
        for rank, node in enumerate(nodes):
            self.until_ready(node, (2 * rank, 2 * rank + 1))
        nodes[0].send_signal(signal.SIGINT)
        self.assertEqual(self.ended(nodes[0])[0], 128 + signal.SIGINT)
        status, output = self.ended(nodes[1])
        self.assertEqual(status, 3, output)
        self.assertRegex(output, r"tutti run: worker [23] \(pid \d+\) exited with 3 ")

    def test_ssh_starts_it_on_each_host(self):
        status, output = self.ended(self.by_ssh("--seconds", "0.5"))
        self.assertEqual(status, 0, output)
        for worker in range(4):
            self.assertRegex(output, rf"(?m)^\[worker {worker}\] done calls=")

    def test_an_interrupt_reaches_the_hosts_through_ssh(self):
        job = self.by_ssh()
        self.until_ready(job, range(4))
        job.send_signal(signal.SIGINT)
        status, output = self.ended(job)
        self.assertEqual(status, 128 + signal.SIGINT, output)
        self.assertRegex(output, r"tutti run: node \d \(pid \d+\) exited with 130 ")

    def test_nothing_is_left_on_the_hosts_when_the_first_command_is_killed(self):
        job = self.by_ssh()
        self.until_ready(job, range(4))
        job.kill()
        self.ended(job)  # when nobody has the pipe any more

    def test_a_host_that_ssh_does_not_reach_ends_the_job(self):
        job = self.by_ssh(TUTTI_JOIN_TIMEOUT="60s")
        self.until_ready(job, range(4))
        ip("netns", "pids", self.hosts.names[1])
        for pid in ip("netns", "pids", self.hosts.names[1]).stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        status, output = self.ended(job)
        self.assertNotEqual(status, 0, output)
        self.assertRegex(output, r"tutti run: node [01] ")


def can_make_hosts():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        with Hosts():
            return True
    except subprocess.CalledProcessError:
        return False


if __name__ == "__main__":
    if not can_make_hosts():
        print("skipped: no network namespaces here (they take root and the command ip)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
