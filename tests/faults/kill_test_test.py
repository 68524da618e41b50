#!/usr/bin/env python3
"""kill_test.py must pass a program that behaves, and catch each way of misbehaving."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("kill_test.py")

# Workers that watch each other's processes, through files in the folder; `FAULT` spoils them.
PROGRAM = """
import ctypes, json, os, pathlib, selectors, signal, socket, sys, time
config = json.loads(os.environ["TF_CONFIG"])
index, count = config["task"]["index"], len(config["cluster"]["worker"])
folder, fault = pathlib.Path(sys.argv[1]), sys.argv[2]
folder = folder / os.environ["TUTTI_JOB_SECRET"]
folder.mkdir(exist_ok=True)
memory = os.memfd_create("tutti-test")
named = socket.socket(socket.AF_UNIX)
named.bind("\\0tutti-test-%d" % os.getpid())
listening = socket.create_server(("127.0.0.1", 0))
if fault == "daemon" and os.fork() == 0:
    os.setsid()
    os.close(memory); named.close(); listening.close()
    for fd in range(3):
        os.close(fd)
    time.sleep(1000)
left = {"socket": named.fileno(), "tcp": listening.fileno(), "memory": memory}
if fault in left and os.fork() == 0:   # a child that hides from the search by environment
    os.setsid()
    os.dup2(left[fault], 0)            # the others are closed on exec
    wait = 'exec >/dev/null 2>&1; while [ -d "$0" ]; do sleep 0.1 </dev/null; done'
    os.execve("/bin/sh", ["sh", "-c", wait, str(folder)], {})
if fault == "early":
    sys.exit(3)
(folder / ("new%d" % index)).write_text(str(os.getpid()))
(folder / ("new%d" % index)).rename(folder / str(index))
peers = [i for i in range(count) if i != index]
while not all((folder / str(i)).exists() for i in peers):
    time.sleep(0.005)
selector = selectors.DefaultSelector()
for i in peers:
    selector.register(os.pidfd_open(int((folder / str(i)).read_text())), selectors.EVENT_READ, i)
print("step 0", flush=True)
dead = selector.select()[0][0].data
if fault == "deaf":
    time.sleep(1000)
if fault == "silent":
    sys.exit("something went wrong")
print("all_reduce #41: rank %d (worker %d) is gone" % (dead, dead), flush=True)
sys.exit(0 if fault == "cheerful" else 1)
"""


class KillTestTest(unittest.TestCase):
    def kill_test(self, fault, *options):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(PROGRAM)
            result = subprocess.run(
                [sys.executable, "-B", str(SCRIPT), "--window", "0.02", *options, "--",
                 sys.executable, "-S", str(program), folder, fault],
                capture_output=True, text=True, timeout=200)
        self.assertEqual(result.stderr, "")
        return result

    def assert_caught(self, fault, pattern, *options):
        result = self.kill_test(fault, "--rounds", "3", *options)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, pattern)

    def test_survivors_that_say_so_and_end_pass(self):
        result = self.kill_test("none", "--rounds", "4", "--workers", "3", "--seed", "11")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("seed 11\n", result.stdout)
        self.assertEqual(result.stdout.count("round "), 4)
        self.assertRegex(result.stdout, r"8 survivors said who died after \d+ ms")

    def test_a_seed_repeats_the_victims(self):
        def victims():
            result = self.kill_test("none", "--rounds", "5", "--seed", "3")
            return [line.split(" killed ")[0] for line in result.stdout.splitlines()
                    if line.startswith("round ")]
        first = victims()
        self.assertEqual(len(first), 5)
        self.assertEqual(victims(), first)

    def test_a_survivor_that_does_not_notice_is_caught(self):
        self.assert_caught("deaf", "survivors hang", "--hang", "2")

    def test_a_survivor_that_names_nobody_is_caught(self):
        self.assert_caught("silent", "did not say that worker . died")

    def test_a_survivor_that_ends_with_0_is_caught(self):
        self.assert_caught("cheerful", "as if nothing had happened")

    def test_workers_that_never_train_are_caught(self):
        self.assert_caught("early", "not all workers came to train")

    def test_a_process_that_is_left_is_caught(self):
        self.assert_caught("daemon", r"left behind: .*process \d+", "--left", "2")

    def test_a_socket_that_is_left_is_caught(self):
        self.assert_caught("socket", r"left behind: .*Unix socket @tutti-test-\d+", "--left", "2")
        self.assert_caught("tcp", r"left behind: .*TCP socket 0100007F:\d+", "--left", "2")

    def test_shared_memory_that_is_left_is_caught(self):
        self.assert_caught("memory", r"left behind: .*shared memory /memfd:tutti-test", "--left",
                           "2")


if __name__ == "__main__":
    unittest.main()
