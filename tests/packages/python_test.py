"""The wheel, as somebody installs it who has nothing else of Tutti."""

import base64
import csv
import hashlib
import io
import re
import shutil
import subprocess
import sys
import sysconfig
import unittest
import zipfile

import outside

PIP = ("-m", "pip", "--disable-pip-version-check")


class PythonTest(outside.Outside):
    """One virtual environment, which sees the NumPy of the system."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wheel, = (cls.prefix / "share/tutti/python").glob("*.whl")
        cls.venv = cls.folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", cls.venv],
                       env=cls.environment, check=True)
        subprocess.run([cls.venv / "bin/python", *PIP, "install", "--no-index", cls.wheel],
                       env=cls.environment, stdout=subprocess.DEVNULL, check=True)
        cls.package, = cls.venv.glob("lib/python3*/site-packages/tutti")

    def python(self, *words, **variables):
        return self.run_program(self.venv / "bin/python", *words, **variables)

    def pip(self, *words):
        return self.output_of(self.venv / "bin/python", *PIP, *words)

    def copy_of_the_package(self):
        """A package to damage; `refusal` imports it."""
        copy = self.folder / "damaged" / "tutti"
        self.addCleanup(shutil.rmtree, copy.parent)
        shutil.copytree(self.package, copy)
        return copy

    def refusal(self, **variables):
        """The last line that importing the damaged package leaves."""
        done = self.python("-c", "import tutti", PYTHONPATH=str(self.folder / "damaged"),
                           **variables)
        self.assertNotEqual(done.returncode, 0, "the import should have failed")
        return done.stderr.splitlines()[-1]

    def test_the_wheel_is_what_the_format_asks(self):
        with zipfile.ZipFile(self.wheel) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        _, version, tag = re.fullmatch(r"(tutti)-([^-]+)-(.+)\.whl", self.wheel.name).groups()
        info = f"tutti-{version}.dist-info/"
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        self.assertTrue(tag.startswith(f"{python}-{python}-linux_"), tag)
        self.assertIn(f"Tag: {tag}\n", files[info + "WHEEL"].decode())
        self.assertIn("Root-Is-Purelib: false\n", files[info + "WHEEL"].decode())
        metadata = files[info + "METADATA"].decode()
        self.assertIn(f"Name: tutti\nVersion: {version}\n", metadata)
        self.assertIn("Requires-Dist: numpy>=1.23.2,<3\n", metadata)
        description = metadata.partition("\n\n")[2]
        self.assertRegex(description, "^# Tutti for Python\n")
        self.assertRegex(description, "It is linked to the libraries of [^{]")
        # A page of packages shows it, which has no other files of the tree.
        self.assertNotRegex(description, r"\]\((?!https?:)")
        for name in ("py.typed", "__init__.py", "libtutti.so.0", "bin/tutti", "needed-packages",
                     f"_native.{sysconfig.get_config_var('SOABI')}.so"):
            self.assertIn("tutti/" + name, files)
        recorded = set()
        for name, digest, size in csv.reader(io.StringIO(files[info + "RECORD"].decode())):
            recorded.add(name)
            if name == info + "RECORD":
                self.assertEqual((digest, size), ("", ""))
                continue
            found = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=")
            self.assertEqual(digest, "sha256=" + found.decode(), name)
            self.assertEqual(int(size), len(files[name]), name)
        self.assertEqual(recorded, set(files))

    def test_a_program_runs(self):
        self.assert_walked(self.python(outside.HERE / "python/walk.py"), self.venv)
        self.assert_leaves_the_tree_alone(self.package)

    def test_the_command_starts_workers_of_the_environment(self):
        program = self.folder / "sum.py"
        program.write_text(
            "import tutti\n"
            "strategy = tutti.distribute.MultiWorkerMirroredStrategy()\n"
            "print(strategy.run(lambda: tutti.distribute.get_replica_context()"
            ".all_reduce('sum', 21)))\n", encoding="utf-8")
        done = self.output_of(self.venv / "bin/tutti", "run", "--workers", "2", "--",
                              self.venv / "bin/python", program)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[worker 0] 42", "[worker 1] 42"])

    def test_uninstalling_leaves_nothing(self):
        self.python(outside.HERE / "python/walk.py")
        self.pip("uninstall", "--yes", "tutti")
        self.addCleanup(self.pip, "install", "--no-index", self.wheel)
        self.assertEqual(sorted(self.venv.rglob("*tutti*")), [])
        self.assertIn("No module named 'tutti'", self.python("-c", "import tutti").stderr)

    def test_pip_refuses_the_wheel_of_another_python(self):
        other = self.folder / re.sub(r"cp\d+-cp\d+", "cp399-cp399", self.wheel.name)
        shutil.copy(self.wheel, other)
        done = self.python(*PIP, "install", "--no-index", other)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is not a supported wheel on this platform", done.stderr)

    def test_another_python_is_refused_by_name(self):
        soabi = sysconfig.get_config_var("SOABI")
        package = self.copy_of_the_package()
        (package / f"_native.{soabi}.so").rename(package / "_native.cpython-399-none.so")
        message = self.refusal()
        self.assertIn("was built for another Python: it has _native.cpython-399-none.so", message)
        self.assertIn(f"Python {sys.version.split()[0]}", message)
        self.assertIn("Install a tutti that was built for this Python.", message)

    def test_a_missing_part_is_named(self):
        (self.copy_of_the_package() / "libtutti.so.0").unlink()
        self.assertIn("is incomplete: libtutti.so.0 is missing", self.refusal())

    def test_a_missing_numpy_is_named(self):
        (self.copy_of_the_package().parent / "numpy.py").write_text(
            "raise ModuleNotFoundError('No module named numpy', name='numpy')\n", encoding="utf-8")
        self.assertEqual(
            self.refusal(),
            f"ImportError: tutti needs NumPy, which this Python ({self.venv}/bin/python) does not "
            f"have. Install it: {self.venv}/bin/python -m pip install 'numpy>=1.23.2,<3'")

    def needy_package(self):
        """(package, name of the library that it needs in vain, package of the distribution)."""
        package = self.copy_of_the_package()
        name, source = outside.package_of_the_absent_library(
            (package / "needed-packages").read_text(encoding="utf-8"))
        for part in ("libtutti.so.0", "needed-packages"):
            path = package / part
            path.write_bytes(outside.needing_an_absent_library(path.read_bytes()))
        return package, name, source

    def test_a_missing_library_is_named_with_its_package(self):
        _, name, package = self.needy_package()
        message = self.refusal()
        self.assertIn(f"ImportError: tutti needs the library {name}, which is missing", message)
        if not package:
            self.skipTest("this system has no dpkg: the packages are not known")
        self.assertIn(f"in the package {package} of ", message)
        self.assertRegex(message, r"Install what tutti needs: apt-get install .*\b" +
                         re.escape(package) + r"\b")

    def test_where_packages_are_unknown_none_is_made_up(self):
        package, name, _ = self.needy_package()
        facts = package / "needed-packages"
        facts.write_text(re.sub(r"(?m)^(needs|behind) (\S+).*$", r"\1 \2", facts.read_text(
            encoding="utf-8")), encoding="utf-8")
        self.assertRegex(self.refusal(), f"{re.escape(name)}, which is missing. This is .*; "
                         "install the package that has it.$")

    def test_another_system_is_named(self):
        facts = self.needy_package()[0] / "needed-packages"
        facts.write_text(re.sub(r"^system .*", "system Debian GNU/Linux 99", facts.read_text(
            encoding="utf-8")), encoding="utf-8")
        message = self.refusal()
        self.assertIn("This tutti was built for Debian GNU/Linux 99, and this is ", message)
        self.assertNotIn("apt-get", message)


if __name__ == "__main__":
    outside.Outside.build, outside.Outside.cmake = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
