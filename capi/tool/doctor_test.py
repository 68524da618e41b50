#!/usr/bin/env python3
"""`tutti doctor`: what it says of this machine, and which problems it names.

    doctor_test.py TUTTI [TEST...]      TUTTI is the command under test
"""

import json
import os
import resource
import socket
import subprocess
import sys
import unittest

TUTTI = ""
SECRET = "a-secret-that-nobody-may-see-anywhere"


class DoctorTest(unittest.TestCase):
    def doctor(self, *words, variables=None, limit_files=None):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("TUTTI_", "TF_"))}
        environment.update(variables or {})
        limits = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit_files, limit_files))
                  ) if limit_files else None
        return subprocess.run([TUTTI, "doctor", *words], env=environment, capture_output=True,
                              text=True, timeout=60, preexec_fn=limits)

    def facts(self, *words, status=0, warned="", **keywords):
        result = self.doctor("--json", *words, **keywords)
        self.assertEqual(result.returncode, status, result.stdout)
        self.assertIn(warned, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1 if warned else 0, result.stderr)
        facts = json.loads(result.stdout)
        self.assertEqual(facts["usable"], status == 0)
        return facts

    def problem(self, facts, *pieces):
        """The one problem that has all the pieces in it; it has a next step."""
        found = [problem for problem in facts["problems"]
                 if all(piece in problem["what"] for piece in pieces)]
        self.assertEqual(len(found), 1, (pieces, facts["problems"]))
        self.assertTrue(found[0]["next_step"])
        return found[0]

    def test_the_facts_are_those_of_this_machine(self):
        facts = self.facts()
        self.assertEqual(facts["cores"]["affinity"], len(os.sched_getaffinity(0)))
        self.assertTrue(1 <= facts["cores"]["usable"] <= facts["cores"]["affinity"])
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.assertEqual(facts["memory"]["total_bytes"], pages)
        self.assertTrue(facts["shared_memory"]["memfd_create"])
        self.assertTrue(facts["processes"]["pidfd_open"])
        self.assertTrue(os.path.samefile(facts["library"]["file"], self.loaded_library()))
        self.assertEqual(facts["devices"], ["CPU:0"])
        cuda, = facts["plugins"]
        self.assertEqual(cuda["name"], "cuda")
        self.assertEqual(cuda["devices"], sum(d.startswith("GPU:") for d in facts["devices"]))
        self.assertEqual(facts["settings"]["log_level"], {"value": "warning", "source": "default"})
        self.assertTrue(any("flat_fold" in row for row in facts["collectives"]))
        self.assertFalse(any(row.startswith("#") for row in facts["collectives"]))
        if os.path.exists("/dev/shm"):
            about = os.statvfs("/dev/shm")
            self.assertEqual(facts["shared_memory"]["dev_shm_bytes"],
                             about.f_blocks * about.f_frsize)
        self.assertIn({"name": "lo", "address": "127.0.0.1", "loopback": True, "up": True},
                      facts["network"]["interfaces"])

    @staticmethod
    def loaded_library():
        for line in subprocess.run(["ldd", TUTTI], capture_output=True, text=True,
                                   check=True).stdout.splitlines():
            if "libtutti.so" in line:
                return line.split("=>")[1].split()[0]
        raise AssertionError("the command is not linked with libtutti")

    def test_it_says_why_there_are_no_gpus(self):
        nowhere = {"TUTTI_CUDA_DRIVER": "/nowhere/libcuda.so.1"}
        cuda, = self.facts(variables=nowhere)["plugins"]
        self.assertEqual((cuda["devices"], cuda["version"]), (0, "0.1.0"))
        self.assertIn("there is no NVIDIA driver: /nowhere/libcuda.so.1", cuda["reason"])
        self.assertIn("cuda: no GPUs: there is no NVIDIA driver",
                      self.doctor(variables=nowhere).stdout)
        nowhere["TUTTI_NCCL_LIBRARY"] = "/nowhere/libnccl.so.2"
        cuda, = self.facts(variables=nowhere)["plugins"]
        self.assertIsNone(cuda["nccl"])
        self.assertIn("there is no NCCL: /nowhere/libnccl.so.2", cuda["nccl_reason"])
        self.assertIn("nccl: none: there is no NCCL: /nowhere/",
                      self.doctor(variables=nowhere).stdout)
        cuda, = self.facts(variables={"TUTTI_CUDA_PLUGIN": "/nowhere/plugin.so"})["plugins"]
        self.assertEqual(cuda["version"], None)
        self.assertIn("/nowhere/plugin.so: there is no such file", cuda["reason"])

    def test_the_text_says_the_same(self):
        facts = self.facts()
        result = self.doctor()
        self.assertRegex(result.stdout, r"\A(no problems found|\d+ problems?:)\n")
        self.assertNotIn("flat_fold", result.stdout)
        result = self.doctor("--collectives")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for piece in (facts["library"]["file"], f"{facts['cores']['usable']} usable",
                      "memfd_create works", "pidfd_open works", "127.0.0.1 (loopback)",
                      "log_level = warning (default)",
                      "# collective   where         ranks up to       algorithm [chunk]"):
            self.assertIn(piece, result.stdout)
        if not facts["problems"]:
            self.assertIn("no problems found", result.stdout)
        for problem in facts["problems"]:
            self.assertIn(problem["next_step"], result.stdout)

    def test_secrets_are_never_shown(self):
        variables = {"TUTTI_JOB_SECRET": SECRET, "TUTTI_JOB_SECRET_FILE": SECRET + "-file",
                     "TUTTI_LOG_LEVEL": "error"}
        for words in ((), ("--json",)):
            result = self.doctor(*words, variables=variables)
            self.assertNotIn(SECRET, result.stdout + result.stderr)
            self.assertIn("TUTTI_JOB_SECRET", result.stdout)
        facts = self.facts(variables=variables)
        self.assertEqual(facts["variables"]["TUTTI_LOG_LEVEL"], "error")
        self.assertEqual(facts["settings"]["log_level"], {"value": "error", "source": "variable"})

    def test_a_variable_that_nobody_reads_is_named(self):
        problem = self.problem(self.facts(variables={"TUTTI_LOG_LEVL": "debug"},
                                          warned="the variable TUTTI_LOG_LEVL is not known"),
                               "TUTTI_LOG_LEVL")
        self.assertIn("TUTTI_LOG_LEVEL", problem["next_step"])
        self.assertFalse(problem["fatal"])

    def test_what_is_no_variable_is_left_alone(self):
        # Only execve itself puts such a thing into an environment.
        script = """
import ctypes, sys
def array(words):
    return (ctypes.c_char_p * (len(words) + 1))(*[word.encode() for word in words], None)
tutti = sys.argv[1]
ctypes.CDLL(None).execve(tutti.encode(), array([tutti, "doctor", "--json"]),
                         array(["TUTTI_NO_VARIABLE", "TUTTI_LOG_LEVEL=error"]))
sys.exit(99)
"""
        result = subprocess.run([sys.executable, "-S", "-c", script, os.path.abspath(TUTTI)],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        facts = json.loads(result.stdout)
        self.assertEqual(facts["variables"], {"TUTTI_LOG_LEVEL": "error"})

    def test_a_setting_that_stops_the_library_makes_it_unusable(self):
        facts = self.facts(status=1, variables={"TUTTI_LOG_LEVEL": "loud"})
        self.assertTrue(self.problem(facts, "TUTTI_LOG_LEVEL", "loud")["fatal"])

    def test_few_open_files_are_a_problem(self):
        self.problem(self.facts(limit_files=256), "256 files")

    def test_the_address_towards_a_coordinator_is_the_one_that_routes_there(self):
        facts = self.facts("--coordinator", "127.0.0.1:2222")
        self.assertEqual(facts["network"]["towards"],
                         {"coordinator": "127.0.0.1:2222", "advertised": "127.0.0.1"})
        others = [one["address"] for one in facts["network"]["interfaces"]
                  if not one["loopback"] and one["up"] and "." in one["address"]]
        for address in others:
            facts = self.facts("--coordinator", address + ":2222")
            self.assertEqual(facts["network"]["towards"]["advertised"], address)

    def test_a_coordinator_that_is_no_address_is_explained(self):
        for text in ("127.0.0.1", "host:", ":1", "1.2.3.4:99999", "fd00::1:22"):
            self.problem(self.facts("--coordinator", text), "coordinator", text, "host:port")
        self.problem(self.facts("--coordinator", "no-such-host.invalid:1"), "no-such-host.invalid")

    @staticmethod
    def tf_config(workers, index):
        return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers},
                                         "task": {"type": "worker", "index": index}})}

    def test_a_good_tf_config_is_no_problem(self):
        with socket.socket() as reserved:  # keeps the port from others, and does not listen
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("127.0.0.1", 0))
            addresses = [f"127.0.0.1:{reserved.getsockname()[1]}", "127.0.0.1:1"]
            facts = self.facts(variables=self.tf_config(addresses, 0))
        self.assertEqual(facts["TF_CONFIG"]["task"], {"type": "worker", "index": 0})
        self.assertEqual(facts["TF_CONFIG"]["cluster"], {"worker": addresses})
        self.assertFalse([one for one in facts["problems"] if "TF_CONFIG" in one["what"]])

    def test_a_tf_config_that_cannot_be_read_makes_the_cluster_unusable(self):
        facts = self.facts(status=1, variables={"TF_CONFIG": "{"})
        self.assertTrue(self.problem(facts, "TF_CONFIG")["fatal"])

    def test_a_task_that_the_cluster_does_not_have_is_fatal(self):
        facts = self.facts(status=1, variables=self.tf_config(["127.0.0.1:1", "127.0.0.1:2"], 5))
        self.assertTrue(self.problem(facts, "5", "does not have")["fatal"])

    def test_a_port_in_use_is_named(self):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            address = f"127.0.0.1:{server.getsockname()[1]}"
            self.problem(self.facts(variables=self.tf_config([address], 0)), address, "in use")

    def test_an_address_of_another_machine_is_named(self):
        variables = self.tf_config(["203.0.113.7:2222"], 0)
        variables["TUTTI_JOB_SECRET"] = SECRET
        facts = self.facts(variables=variables)
        self.problem(facts, "203.0.113.7:2222", "none of this machine's")

    def test_loopback_and_other_addresses_do_not_mix_and_need_a_secret(self):
        facts = self.facts(variables=self.tf_config(["127.0.0.1:1024", "203.0.113.7:2222"], 1))
        self.problem(facts, "loopback")
        self.problem(facts, "no job secret")

    def test_each_resolver_says_what_it_would_answer_or_why_not(self):
        step = {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
                "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_JOB_ID": "7",
                "GCE_METADATA_HOST": "127.0.0.1:1"}
        facts = self.facts("--gce-group", "g", variables=step)["resolvers"]
        self.assertEqual(facts["SlurmClusterResolver"], {
            "cluster": {"worker": ["n1:8888", "n2:8888"]}, "task": {"type": "worker", "index": 1}})
        self.assertEqual(facts["TFConfigClusterResolver"], {"reason": "it knows of no cluster"})
        self.assertIn("this process is in no pod", facts["KubernetesClusterResolver"]["reason"])
        self.assertRegex(facts["GCEClusterResolver"]["reason"],
                         "which only instances of Google Compute Engine reach|libcurl")
        text = self.doctor(variables=self.tf_config(["127.0.0.1:1", "127.0.0.1:2"], 1)).stdout
        self.assertIn("TFConfigClusterResolver: this is worker 1 of ", text)
        self.assertRegex(text, "SlurmClusterResolver: none: .*SLURM_STEP_NODELIST")
        self.assertIn("GCEClusterResolver: none: it is asked for a group", text)

    def test_wrong_words_are_explained(self):
        result = self.doctor("--frobnicate")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("--frobnicate", result.stderr)
        result = self.doctor("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("--coordinator", result.stdout)


if __name__ == "__main__":
    TUTTI = os.path.abspath(sys.argv.pop(1))
    unittest.main()
