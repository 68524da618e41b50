#!/usr/bin/env python3
"""`tutti run` as one of several machines: its words, and what it tells the workers.

    run_nodes_test.py TUTTI [TEST...]      TUTTI is the command under test
"""

import json
import signal
import subprocess
import unittest

from run_testing import RunTest, TUTTI


class NodesTest(RunTest):
    """Jobs of several machines, on this one; hosts_test.py has two."""

    def setUp(self):
        super().setUp()
        self.environment.pop("JOB_COMPLETION_INDEX", None)
        self.secret = self.folder / "secret"
        self.secret.write_text("0123456789abcdef0123456789abcdef\n")

    def config_of(self, *words, **more):
        self.environment.update(more)
        outcome = self.run_words("run", "--no-prefix", *words, "--", "sh", "-c",
                                 "echo $TF_CONFIG $TUTTI_JOB_SECRET_FILE$TUTTI_JOB_SECRET")
        self.assertEqual((outcome.status, outcome.err), (0, ""))
        config, secret = outcome.out.splitlines()[0].rsplit(" ", 1)
        return json.loads(config), secret

    def test_each_has_its_place_among_all(self):
        config, secret = self.config_of("--nodes", "2", "--node-rank", "1", "--coordinator",
                                        "head:29500", "--secret-file", str(self.secret))
        self.assertEqual(config, {"cluster": {"worker": ["head:29500", "node-1:1"]},
                                  "task": {"type": "worker", "index": 1}})
        self.assertEqual(secret, str(self.secret))
        config, _ = self.config_of("--nodes", "2", "--node-rank", "0", "--coordinator",
                                   "127.0.0.1:29500", "--secret-file", str(self.secret))
        self.assertEqual(config["cluster"], {"worker": ["127.0.0.1:29500", "127.0.0.1:29501"]})

    def test_a_pod_of_an_indexed_job_knows_its_rank(self):
        config, secret = self.config_of("--nodes", "3", "--coordinator", "digits-0.digits:29500",
                                        JOB_COMPLETION_INDEX="2",
                                        TUTTI_JOB_SECRET="fedcba9876543210fedcba9876543210")
        self.assertEqual(config["task"], {"type": "worker", "index": 2})
        self.assertEqual(secret, "fedcba9876543210fedcba9876543210")

    def in_pod(self, hosts, *words):
        """What the command does as place 1 of an Indexed Job, with this /etc/hosts."""
        file = self.folder / "hosts"
        file.write_text("127.0.0.1 localhost\n" + hosts)
        pod = ["unshare", "-um", "sh", "-c", 'hostname digits-1 && mount --bind "$1" /etc/hosts && '
               'shift && exec "$@"', "sh", str(file)]
        if subprocess.run([*pod, "true"], stderr=subprocess.DEVNULL, timeout=60).returncode != 0:
            self.skipTest("a machine's name can be another only where unshare -um is allowed")
        return subprocess.run(
            [*pod, TUTTI, "run", "--no-prefix", *words, "--", "sh", "-c", "echo $TF_CONFIG"],
            capture_output=True, text=True, timeout=60,
            env={**self.environment, "JOB_COMPLETION_INDEX": "1",
                 "TUTTI_JOB_SECRET": "fedcba9876543210fedcba9876543210"})

    def test_a_pod_that_a_service_names_finds_the_first_one(self):
        outcome = self.in_pod("10.1.2.3\tdigits-1.team.default.svc.cluster.local\tdigits-1\n",
                              "--nodes", "2")
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
        config = json.loads(outcome.stdout)
        self.assertEqual(config["cluster"]["worker"][0],
                         "digits-0.team.default.svc.cluster.local:29500")
        self.assertEqual(config["task"], {"type": "worker", "index": 1})

    def test_a_pod_without_a_service_says_what_its_manifest_lacks(self):
        for name in ("digits-1", "digits-7.team.svc"):
            outcome = self.in_pod(f"10.1.2.3\t{name}\tdigits-1\n", "--nodes", "2")
            self.assertEqual((outcome.returncode, outcome.stdout), (2, ""), name)
            self.assertIn(f'this pod is "{name}"', outcome.stderr)
            self.assertIn("a Service with clusterIP: None", outcome.stderr)
            self.assertIn("as subdomain in the Job's spec.template.spec", outcome.stderr)
        self.environment["JOB_COMPLETION_INDEX"] = "1"
        outcome = self.run_words("run", "--coordinator", "a:1", "--", "true")
        self.assertEqual(outcome.status, 2)
        self.assertIn("needs --nodes N; in a pod of an Indexed Job of Kubernetes N is what the "
                      "manifest says in spec.completions", outcome.err)

    def test_what_lacks_or_is_wrong_is_told(self):
        nodes = ["--nodes", "2"]
        all_but_secret = [*nodes, "--node-rank", "0", "--coordinator", "a:1"]
        for words, said in (
                (nodes, "needs --coordinator HOST:PORT"),
                ([*nodes, "--coordinator", "a:1"], "needs --node-rank N, from 0"),
                (all_but_secret, "needs a secret"),
                ([*all_but_secret, "--secret-file", "/no/file"], "/no/file cannot be read"),
                ([*nodes, "--node-rank", "2", "--coordinator", "a:1"], "is 2, and --nodes says 2"),
                ([*nodes, "--node-rank", "0", "--coordinator", "a", "--secret-file",
                  str(self.secret)], 'is "a"; expected HOST:PORT'),
                ([*all_but_secret, "--secret-file", str(self.secret), "--max-restarts", "1"],
                 "is not restarted"),
                (["--secret-file", str(self.secret)], "is of jobs of several machines"),
                (["--hosts", "a,b"], "--hosts needs --secret-file"),
                (["--hosts", "a,-oProxyCommand=x"], "is no name of a host"),
                (["--hosts", "a", "--nodes", "2"], "leave out --nodes")):
            outcome = self.run_words("run", *words, "--", "true")
            self.assertEqual((outcome.status, outcome.out), (2, ""), words)
            self.assertIn(said, outcome.err)

    def test_ssh_gets_words_as_they_are(self):
        ssh = self.folder / "ssh"
        ssh.write_text("#!/bin/sh\nshift 2\nhost=$1\nshift\nexec env HOST=$host sh -c \"$*\"\n")
        ssh.chmod(0o755)
        self.environment["PATH"] = f"{self.folder}:{self.environment['PATH']}"
        outcome = self.run_words("run", "--hosts", "a,user@b", "--secret-file", str(self.secret),
                                 "--", "sh", "-c", "echo \"$HOST\" \"$1\" $TF_CONFIG", "sh",
                                 "it's $HOME")
        self.assertEqual((outcome.status, outcome.err), (0, ""))
        for worker, host in ((0, "a"), (1, "user@b")):
            line, = outcome.lines_of(worker)
            self.assertIn(f"{host} it's $HOME ", line)
            self.assertIn('"a:29500"', line)

    def test_signals_come_by_the_input_of_whoever_started_it(self):
        process = self.start(["--workers", "2", "--follow-input", "--grace", "1h"], """
got = []
signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
mark("ready %d" % index)
until(lambda: got)
mark("interrupted %d" % index)
forever()
""", stdin=subprocess.PIPE)
        self.until_marked("ready 0", "ready 1")
        process.stdin.write(b"nonsense\n2")
        process.stdin.write(b"\n")
        self.until_marked("interrupted 0", "interrupted 1")
        process.stdin.close()  # its end is the end of the job
        process.stdin = None
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 128 + signal.SIGKILL, outcome.err)


if __name__ == "__main__":
    unittest.main()
