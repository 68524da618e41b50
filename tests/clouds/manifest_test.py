"""The example manifest for Kubernetes: it has what batch/v1 asks for, and its command and
environment make one job of as many processes as it has pods.

    manifest_test.py
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["TUTTI_SOURCE_DIR"])
COMMAND = os.environ["TUTTI_COMMAND"]
HANG_S = 240
KEY = re.compile(r"([A-Za-z][\w.-]*):(?:\s+(.*))?$")


def scalar(text):
    if text[:1] in "\"'":
        return text[1:-1]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return {"true": True, "false": False}.get(text, text)


def block(lines):
    """What the first lines of `lines`, (indent, text), are: a list, a mapping or a scalar."""
    indent, text = lines[0]
    if text.startswith("- "):
        items = []
        while lines and lines[0][0] == indent and lines[0][1].startswith("- "):
            lines[0] = (indent + 2, lines[0][1][2:])
            items.append(block(lines))
        return items
    if not KEY.match(text):
        return scalar(lines.pop(0)[1])
    mapping = {}
    while lines and lines[0][0] == indent and KEY.match(lines[0][1]):
        key, value = KEY.match(lines.pop(0)[1]).groups()
        assert key not in mapping, key
        mapping[key] = scalar(value) if value else block(lines)
    return mapping


def documents(text):
    """The parts of a manifest, of the little YAML that it is written in."""
    for part in re.split(r"(?m)^---$", text):
        lines = []
        for line in part.splitlines():
            line = re.sub(r"(^|\s)#.*", "", line).rstrip()
            if line:
                lines.append((len(line) - len(line.lstrip()), line.lstrip()))
        if lines:
            yield block(lines)
            assert not lines, lines


class ManifestTest(unittest.TestCase):
    def setUp(self):
        text = (SOURCE / "examples/kubernetes/train_digits.yaml").read_text()
        parts = list(documents(text))
        self.service, self.job = parts
        self.pod = self.job["spec"]["template"]["spec"]
        self.container, = self.pod["containers"]

    def test_it_has_what_the_api_asks_for(self):
        for part, version, kind in ((self.service, "v1", "Service"),
                                    (self.job, "batch/v1", "Job")):
            self.assertEqual((part["apiVersion"], part["kind"]), (version, kind))
            self.assertRegex(part["metadata"]["name"], r"^[a-z]([a-z0-9-]*[a-z0-9])?$")
        spec = self.job["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual(spec["completions"], spec["parallelism"])
        # A job's pods may not be restarted for ever.
        self.assertIn(self.pod["restartPolicy"], ("Never", "OnFailure"))
        self.assertEqual({"name", "image", "command"} - set(self.container), set())
        # Each index, from 0, is the end of a pod's name, which the service without an address makes
        # known.
        self.assertEqual(self.service["spec"]["clusterIP"], "None")
        self.assertEqual(self.pod["subdomain"], self.service["metadata"]["name"])
        labels = spec["template"]["metadata"]["labels"]
        self.assertLessEqual(self.service["spec"]["selector"].items(), labels.items())
        for variable in self.container["env"]:
            self.assertEqual(len({"value", "valueFrom"} & set(variable)), 1, variable)
            self.assertIsInstance(variable.get("value", ""), str)

    def test_the_parts_fit_together(self):
        command = self.container["command"]
        self.assertTrue(all(isinstance(word, str) for word in command), command)
        self.assertEqual(int(command[command.index("--nodes") + 1]),
                         self.job["spec"]["completions"])
        host, port = command[command.index("--coordinator") + 1].rsplit(":", 1)
        self.assertEqual(host, f"{self.job['metadata']['name']}-0.{self.pod['subdomain']}")
        self.assertEqual(int(port), self.container["ports"][0]["containerPort"])

    def pods(self, secret):
        """The container's command as each pod runs it, but for names and paths of this machine."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
        here = {"tutti": COMMAND, "python3": sys.executable,
                self.container["command"][self.container["command"].index("--coordinator") + 1]:
                    address}
        words = [here.get(word, word) for word in self.container["command"]]
        for index in range(self.job["spec"]["completions"]):
            environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("TUTTI_JOB", "TF_", "SLURM_"))}
            environment.update({"JOB_COMPLETION_INDEX": str(index),
                                "HOSTNAME": f"{self.job['metadata']['name']}-{index}"})
            for variable in self.container["env"]:
                value = variable.get("value", secret)
                if value is not None:
                    environment[variable["name"]] = value
            process = subprocess.Popen(words, cwd=SOURCE, env=environment, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            yield process

    def test_the_digits_are_learnt_by_two_pods(self):
        pods = list(self.pods("0123456789abcdef0123456789abcdef"))
        self.assertEqual(len(pods), 2)
        for index, pod in enumerate(pods):
            said, _ = pod.communicate(timeout=HANG_S)
            self.assertEqual(pod.returncode, 0, said)
            if index == 0:
                self.assertRegex(said, r"(?i)\[worker 0\] .*(accuracy|loss)")

    def test_without_the_secret_it_says_what_lacks(self):
        for pod in self.pods(None):
            said, _ = pod.communicate(timeout=HANG_S)
            self.assertEqual(pod.returncode, 2, said)
            self.assertIn("under Kubernetes a Secret", said)


if __name__ == "__main__":
    unittest.main()
