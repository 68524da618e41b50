"""What the tests of the packages share: an installed Tutti in an empty folder, and an environment
in which nothing points back to the build."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
# Where the programs find themselves at home: nothing but the system, so no PYTHONPATH, no
# LD_LIBRARY_PATH, no CLASSPATH and no settings of Tutti.
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Outside(unittest.TestCase):
    """Each class installs once, into `prefix`, and works in `folder`."""

    build: str  # the build folder; set by the script that runs the tests
    cmake: str

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        subprocess.run([cls.cmake, "--install", cls.build, "--prefix", str(cls.prefix)], check=True,
                       stdout=subprocess.DEVNULL)
        cls.environment = {"PATH": PATH, "HOME": str(cls.folder), "LC_ALL": "C.UTF-8"}

    def run_program(self, *command, at=None, **variables):
        """Runs a command outside the tree, in the folder `at`, and returns what it did."""
        environment = dict(self.environment, **variables)
        return subprocess.run([str(word) for word in command], env=environment,
                              cwd=at or self.folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=280, check=False)

    def output_of(self, *command, **options):
        done = self.run_program(*command, **options)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done

    def assert_walked(self, done, home):
        """The program walked over the data, on two replicas, with libraries from under `home`."""
        self.assertEqual(done.stdout, "PerReplica:{0: [0 1], 1: [2 3]} PerReplica:{0: 6, 1: 6}\n"
                         "PerReplica:{0: [4 5], 1: [6 7]} PerReplica:{0: 22, 1: 22}\n")
        libraries = set(re.findall(r"/\S*libtutti\S*", done.stderr))
        self.assertTrue(libraries, done.stderr)
        for library in libraries:
            self.assertTrue(library.startswith(str(home)), f"{library} is not under {home}")

    def assert_leaves_the_tree_alone(self, folder):
        """No program or library under `folder` looks for others in the build or source tree."""
        looked_at = 0
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if not path.is_file() or path.is_symlink() or path.read_bytes()[:4] != b"\x7fELF":
                continue
            looked_at += 1
            text = subprocess.run(["readelf", "--dynamic", "--wide", str(path)], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
            for runpath in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text):
                for entry in runpath.split(":"):
                    self.assertTrue(entry.startswith("$ORIGIN"), f"{path} looks in {entry}")
        self.assertGreater(looked_at, 0, f"no program or library under {folder}")


# The tests of what is missing give libtutti the need of a library that no system has: of the same
# length, so that nothing else in the file moves.
NEEDED = b"libgrpc.so."
ABSENT = b"libgrpX.so."


def needing_an_absent_library(contents):
    """The bytes of libtutti.so.0, or of needed-packages, with that need."""
    if NEEDED not in contents:
        raise AssertionError("libtutti needs no gRPC any more: choose another library here")
    return contents.replace(NEEDED, ABSENT)


def package_of_the_absent_library(needed_packages):
    """(name, package) of the library that is given another name, from the text as it was."""
    line = re.search(r"^needs (" + re.escape(NEEDED.decode()) + r"\S*) ?(\S*)$", needed_packages,
                     re.MULTILINE)
    return line.group(1).replace(NEEDED.decode(), ABSENT.decode()), line.group(2)
