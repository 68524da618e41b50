"""Shows registry_hosts.py made-up trees and looks at what it refuses."""

import pathlib
import tempfile
import unittest

import registry_hosts


class RegistryHosts(unittest.TestCase):
    def violations(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
            return list(registry_hosts.violations(folder))

    def test_refuses_every_host_in_any_kind_of_file(self):
        for host in registry_hosts.HOSTS:
            host = host.replace(" ", ".")
            for name in ("README.md", "a.yaml", ".ci/run", "core/data.bin"):
                found, = self.violations(name, f"\0one\nfrom https://{host}/simple\n")
                self.assertTrue(found.startswith(f"{name}:2: {host} is a host"), found)

    def test_refuses_hosts_in_capitals_at_ports_and_below(self):
        first = registry_hosts.HOSTS[0].replace(" ", ".")
        for text in (first.upper(), f"{first}:443", f"https://{first},direct", f"eu.{first}"):
            self.assertEqual(len(self.violations("a.sh", text)), 1, text)

    def test_refuses_downloads_from_where_documents_stand_too(self):
        base = "https://github" + ".com/a/b/"
        for path in ("releases/download/v1/c.tar.gz", "archive/refs/tags/v1.zip"):
            self.assertEqual(len(self.violations("a.cmake", base + path)), 1)
        self.assertEqual(self.violations("a.md", base + "blob/main/README.md"), [])

    def test_accepts_the_settings_of_tools_and_names_that_only_look_alike(self):
        first = registry_hosts.HOSTS[0].replace(" ", ".")
        for text in ("GOPROXY=file:///x,$(go env GOPROXY)", "pip install tutti", f"my{first}x",
                     first.replace(".", "-"), f"{first}x"):
            self.assertEqual(self.violations("README.md", text), [], text)

    def test_leaves_builds_and_caches_alone(self):
        first = registry_hosts.HOSTS[0].replace(" ", ".")
        for name in ("build/log", ".git/config", "tests/__pycache__/a.pyc"):
            self.assertEqual(self.violations(name, first), [])
        self.assertEqual(len(self.violations("core/build/log", first)), 1)


if __name__ == "__main__":
    unittest.main()
