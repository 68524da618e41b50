"""The Go module, as somebody uses it who has an installed Tutti and no SWIG."""

import json
import os
import re
import shutil
import sys
import unittest
import zipfile

import outside

GO_MOD = """\
module walk

go 1.19

require tutti.dev/tutti v{version}
"""


class GoTest(outside.Outside):
    """A module of its own requires the installed one."""

    go: str
    cache: str  # of compiled packages, so that the standard library is not compiled again
    version: str

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.proxy = cls.prefix / "share/tutti/go"
        cls.sources = cls.prefix / "share/gocode/src/tutti.dev/tutti"
        package, = cls.prefix.rglob("tutti.pc")
        cls.library = package.parent.parent
        # A SWIG that fails, in front of any other.
        tools = cls.folder / "tools"
        tools.mkdir()
        swig = tools / "swig"
        swig.write_text("#!/bin/sh\nexit 97\n", encoding="ascii")
        swig.chmod(0o755)
        cls.environment.update({
            "PATH": f"{tools}:{os.path.dirname(cls.go)}:{outside.PATH}",
            "PKG_CONFIG_PATH": str(package.parent), "GOPATH": str(cls.folder / "go"),
            "GOCACHE": cls.cache, "GOTOOLCHAIN": "local", "GONOSUMDB": "tutti.dev",
            "GOFLAGS": "-mod=mod -modcacherw", "GOPROXY": f"file://{cls.proxy}",
            "CGO_LDFLAGS": f"-Wl,-rpath,{cls.library}",
        })

    def program_folder(self, more=""):
        folder = self.folder / "walk"
        self.addCleanup(shutil.rmtree, folder)
        folder.mkdir()
        shutil.copy(outside.HERE / "go/main.go", folder)
        (folder / "go.mod").write_text(GO_MOD.format(version=self.version) + more, encoding="ascii")
        return folder

    def test_the_pages_of_every_language_are_there(self):
        pages = self.prefix / "share/doc/tutti"
        for page, first in (("README.md", "# Tutti"), ("c/README.md", "# The C interface"),
                            ("go/README.md", "# Tutti for Go"), ("guides/README.md", "# Guides"),
                            ("java/README.md", "# Tutti for Java"),
                            ("python/README.md", "# Tutti for Python"),
                            ("tool/README.md", "# ")):
            self.assertTrue((pages / page).read_text(encoding="utf-8").startswith(first), page)

    def build_program(self, folder, **variables):
        self.output_of(self.go, "build", "-o", "walk", ".", at=folder, **variables)
        return folder / "walk"

    def test_the_proxy_has_what_the_protocol_asks(self):
        versions = self.proxy / "tutti.dev/tutti/@v"
        version = "v" + self.version
        self.assertEqual((versions / "list").read_text(encoding="ascii"), version + "\n")
        information = json.loads((versions / f"{version}.info").read_text(encoding="ascii"))
        self.assertEqual(information["Version"], version)
        definition = (versions / f"{version}.mod").read_bytes()
        with zipfile.ZipFile(versions / f"{version}.zip") as archive:
            names = set(archive.namelist())
            prefix = f"tutti.dev/tutti@{version}/"
            self.assertFalse([name for name in names if not name.startswith(prefix)])
            self.assertEqual(archive.read(prefix + "go.mod"), definition)
        for name in ("LICENSE", "doc.go", "internal/native/native.go",
                     "internal/native/native_wrap.cxx"):
            self.assertIn(prefix + name, names)
        installed = {prefix + path.relative_to(self.sources).as_posix()
                     for path in self.sources.rglob("*") if path.is_file()}
        self.assertEqual(installed, names)

    def test_a_program_builds_through_the_proxy_and_runs(self):
        folder = self.program_folder()
        program = self.build_program(folder)
        self.assertIn(f"tutti.dev/tutti v{self.version} h1:",
                      (folder / "go.sum").read_text(encoding="ascii"))
        self.assertIn("all modules verified",
                      self.output_of(self.go, "mod", "verify", at=folder).stdout)
        done = self.output_of(program)
        self.assert_walked(done, self.prefix)
        self.assert_looks_in_the_prefix_alone(program)

        # ld.so speaks here, before any code of ours: it names the library, and the installed list
        # says what package that is in.
        facts = (self.prefix / "share/tutti/needed-packages").read_text(encoding="utf-8")
        name, package = outside.package_of_the_absent_library(facts)
        needy = self.folder / "needy"
        needy.mkdir()
        library = needy / "libtutti.so.0"
        library.write_bytes(outside.needing_an_absent_library(
            (self.library / "libtutti.so.0").read_bytes()))
        done = self.run_program(program, LD_LIBRARY_PATH=str(needy))
        self.assertEqual(done.returncode, 127)
        self.assertIn(f"error while loading shared libraries: {name}: cannot open", done.stderr)
        if shutil.which("dpkg-query"):
            self.assertNotEqual(package, "")

    def test_a_program_builds_beside_the_sources_without_a_proxy(self):
        folder = self.program_folder(f"\nreplace tutti.dev/tutti => {self.sources}\n")
        program = self.build_program(folder, GOPROXY="off")
        self.assert_walked(self.output_of(program), self.prefix)

    def test_without_the_library_the_build_says_what_it_looked_for(self):
        folder = self.program_folder()
        # With flags of its own, so that Go does not take what it has compiled before.
        done = self.run_program(self.go, "build", ".", at=folder, PKG_CONFIG_PATH="",
                                PKG_CONFIG_LIBDIR=str(folder), CGO_CXXFLAGS="-DUNSEEN")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "(?i)package '?tutti'?.* not found")

    def assert_looks_in_the_prefix_alone(self, program):
        text = self.output_of("readelf", "--dynamic", "--wide", program).stdout
        self.assertEqual(re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text), [str(self.library)])


if __name__ == "__main__":
    (outside.Outside.build, outside.Outside.cmake, GoTest.go, GoTest.cache,
     GoTest.version) = sys.argv[1:6]
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
