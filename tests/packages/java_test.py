"""The jars, as somebody uses them who has nothing else of Tutti."""

import os
import re
import shutil
import sys
import unittest
import xml.etree.ElementTree
import zipfile

import outside

POM = "{http://maven.apache.org/POM/4.0.0}"


class JavaTest(outside.Outside):
    """A program is compiled against the installed jar."""

    jdk: str  # the folder of javac and java
    version: str

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.jar = cls.prefix / "share/java/tutti.jar"
        cls.artifacts = cls.prefix / "share/maven-repo/org/tutti/tutti" / cls.version

    def java(self, *words, **variables):
        return self.run_program(self.jdk + "/java", "-Xmx256m", *words, **variables)

    def compile(self, *options):
        classes = self.folder / "classes"
        self.addCleanup(shutil.rmtree, classes)
        self.output_of(self.jdk + "/javac", "--release", "17", *options, "-d", classes,
                       outside.HERE / "java/Walk.java")
        return classes

    def test_a_program_runs_with_the_jar_alone(self):
        classes = self.compile("-cp", self.jar)
        temporary = self.folder / "temporary"
        temporary.mkdir()
        self.addCleanup(shutil.rmtree, temporary)
        done = self.java(f"-Djava.io.tmpdir={temporary}", "-cp", f"{classes}:{self.jar}", "Walk")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_walked(done, temporary)
        self.assertEqual(list(temporary.iterdir()), [], "what was unpacked is gone")

    def test_a_program_runs_with_the_jar_as_a_module(self):
        classes = self.compile("--module-path", self.jar, "--add-modules", "org.tutti")
        done = self.java("--module-path", self.jar, "--add-modules", "org.tutti", "-cp", classes,
                         "Walk")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_walked(done, "/tmp/")
        described = self.output_of(self.jdk + "/jar", "--describe-module", "--file", self.jar)
        self.assertIn(f"org.tutti@{self.version} ", described.stdout)

    def test_classes_are_those_of_java_17(self):
        # An older virtual machine says so itself: "compiled by a more recent version".
        with zipfile.ZipFile(self.jar) as archive:
            versions = {archive.read(name)[6:8] for name in archive.namelist()
                        if name.endswith(".class")}
        self.assertEqual(versions, {b"\0\x3d"})

    def test_libraries_in_the_jar_leave_the_tree_alone(self):
        unpacked = self.folder / "unpacked"
        self.addCleanup(shutil.rmtree, unpacked)
        with zipfile.ZipFile(self.jar) as archive:
            archive.extractall(unpacked)
        self.assert_leaves_the_tree_alone(unpacked)

    def test_the_repository_has_what_maven_asks_for(self):
        stem = f"tutti-{self.version}"
        self.assertEqual(sorted(path.name for path in self.artifacts.iterdir()),
                         sorted([f"{stem}.jar", f"{stem}.pom", f"{stem}-sources.jar",
                                 f"{stem}-javadoc.jar"]))
        project = xml.etree.ElementTree.parse(self.artifacts / f"{stem}.pom").getroot()
        self.assertEqual([project.findtext(POM + name) for name in
                          ("modelVersion", "groupId", "artifactId", "version", "packaging")],
                         ["4.0.0", "org.tutti", "tutti", self.version, "jar"])
        with zipfile.ZipFile(self.artifacts / f"{stem}-sources.jar") as archive:
            sources = set(archive.namelist())
        with zipfile.ZipFile(self.jar) as archive:
            classes = {name for name in archive.namelist()
                       if name.endswith(".class") and "$" not in name}
        self.assertEqual({name.replace(".class", ".java") for name in classes} - sources, set())
        with zipfile.ZipFile(self.artifacts / f"{stem}-javadoc.jar") as archive:
            pages = archive.namelist()
        self.assertIn("index.html", pages)
        self.assertIn("org.tutti/org/tutti/distribute/Strategy.html", pages)
        self.assertFalse([page for page in pages if "/internal/" in page])

    def test_a_range_of_versions_finds_this_one(self):
        metadata = self.artifacts.parent / "maven-metadata.xml"
        versioning = xml.etree.ElementTree.parse(metadata).getroot().find("versioning")
        self.assertEqual([version.text for version in versioning.find("versions")], [self.version])
        self.assertEqual(versioning.find("release").text, self.version)

    def test_maven_reads_the_pom(self):
        maven = shutil.which("mvn", path=outside.PATH)
        if maven is None:
            self.skipTest("there is no mvn")
        pom = self.folder / "pom.xml"
        shutil.copy(self.artifacts / f"tutti-{self.version}.pom", pom)
        # `validate` needs no plugin, so no network.
        self.output_of(maven, "--offline", "--quiet", "--file", pom,
                       f"-Dmaven.repo.local={self.folder}/m2", "validate",
                       JAVA_HOME=os.path.dirname(self.jdk))

    def needy_jar(self, *changes):
        """(jar, name of the library that it needs in vain, package of the distribution)."""
        path = self.folder / "needy.jar"
        self.addCleanup(path.unlink)
        with zipfile.ZipFile(self.jar) as archive, zipfile.ZipFile(path, "w") as changed:
            name, package = outside.package_of_the_absent_library(
                archive.read("org/tutti/native/needed-packages").decode())
            for entry in archive.infolist():
                contents = archive.read(entry)
                if entry.filename.endswith(("/libtutti.so.0", "/needed-packages")):
                    contents = outside.needing_an_absent_library(contents)
                if entry.filename.endswith("/needed-packages"):
                    for pattern, text in changes:
                        contents = re.sub(pattern, text, contents)
                changed.writestr(entry, contents)
        return path, name, package

    def refusal(self, jar, *options):
        done = self.java(*options, "-cp", f"{self.compile('-cp', self.jar)}:{jar}", "Walk")
        self.assertNotEqual(done.returncode, 0, "loading should have failed")
        return done.stderr.splitlines()[0]

    def test_a_missing_library_is_named_with_its_package(self):
        jar, name, package = self.needy_jar()
        message = self.refusal(jar)
        self.assertIn("java.lang.UnsatisfiedLinkError: tutti needs the library "
                      f"{name}, which is missing", message)
        if not package:
            self.skipTest("this system has no dpkg: the packages are not known")
        self.assertIn(f"in the package {package} of ", message)
        self.assertRegex(message, r"Install what tutti needs: apt-get install .*\b" +
                         re.escape(package) + r"\b")

    def test_where_packages_are_unknown_none_is_made_up(self):
        jar, name, _ = self.needy_jar((rb"(?m)^(needs|behind) (\S+).*$", rb"\1 \2"))
        self.assertRegex(self.refusal(jar), f"{re.escape(name)}, which is missing. This is .*; "
                         "install the package that has it.$")

    def test_another_system_is_named(self):
        jar, _, _ = self.needy_jar((rb"\Asystem .*", b"system Debian GNU/Linux 99"))
        message = self.refusal(jar)
        self.assertIn("This tutti was built for Debian GNU/Linux 99, and this is ", message)
        self.assertNotIn("apt-get", message)

    def test_another_machine_is_named(self):
        message = self.refusal(self.jar, "-Dos.arch=riscv64")
        self.assertRegex(message, r"libraries for linux-riscv64 were not found: the jar carries "
                         r"those for linux-\w+")


if __name__ == "__main__":
    outside.Outside.build, outside.Outside.cmake, JavaTest.jdk, JavaTest.version = sys.argv[1:5]
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
