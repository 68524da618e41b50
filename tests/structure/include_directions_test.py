"""Shows include_directions.py made-up trees and looks at what it refuses."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import include_directions


class IncludeDirections(unittest.TestCase):
    def violations(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return list(include_directions.violations(root))

    def assert_one(self, files, *words):
        found = self.violations(files)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_accepts_what_the_table_allows(self):
        self.assertEqual(self.violations({
            "core/base/status.h": "#include <string>\n#include <fmt/core.h>\n",
            "core/tensor/tensor.h":
                '#include "core/base/status.h"\n'
                '#include "core/tensor/shape.h"\n',
            "core/tensor/shape.h": "",
            "core/strategy/mirrored.cc":
                '#include "core/base/status.h"\n'
                '#include "core/dataset/graph/a.h"\n',
            "core/dataset/graph/graph_proto.cc": '#include "tutti/v1/graph.pb.h"\n',
            "core/runtime/runtime.cc":
                '#include "core/checkpoint/saver.h"\n'
                '#include "core/service/a.h"\n',
            "capi/src/tensor.cc":
                '#include <tutti/tutti.h>\n'
                '#include "handles.h"\n'
                '#include "core/tensor/tensor.h"\n',
            "capi/src/handles.h": "",
            "capi/include/tutti/tutti.h": "#include <stddef.h>\n#include <tutti/abi.h>\n",
            "capi/tool/main.cc": "#include <tutti/tutti.h>\n",
            "bindings/swig/facade.h": "#include <tutti/tutti.h>\n#include <Python.h>\n",
            "examples/c/train.c": '#include <tutti/tutti.h>\n#include "model.h"\n',
            "examples/c/model.h": "",
        }), [])

    def test_refuses_an_include_of_a_room_above(self):
        self.assert_one({"core/tensor/tensor.cc": '\n\n#include "core/dataset/dataset.h"\n'},
                        "core/tensor/tensor.cc:3", "tensor may not include", "dataset")

    def test_refuses_an_include_of_a_room_beside(self):
        self.assert_one({"core/dataset/graph/x.h": '#include "core/collective/communicator/x.h"\n'},
                        "dataset may not include", "collective")

    def test_refuses_an_include_of_a_room_above_by_a_relative_path(self):
        self.assert_one({"core/base/x.cc": '#include "../tensor/shape.h"\n',
                         "core/tensor/shape.h": ""}, "base may not include", "tensor")

    def test_refuses_an_include_in_angle_brackets_alike(self):
        self.assert_one({"core/base/x.cc": "#  include <core/tensor/shape.h>\n"},
                        "base may not include")

    def test_refuses_an_unknown_room(self):
        self.assert_one({"core/misc/x.cc": "#include <string>\n"}, "core/misc is not a room")

    def test_refuses_an_include_of_an_unknown_room(self):
        self.assert_one({"core/runtime/x.cc": '#include "core/misc/x.h"\n'},
                        "runtime may not include", "core/misc")

    def test_refuses_a_source_that_stands_in_no_room(self):
        self.assert_one({"core/x.cc": ""}, "is not a room")

    def test_refuses_the_c_headers_in_the_core(self):
        self.assert_one({"core/tensor/x.cc": "#include <tutti/tutti.h>\n"},
                        "tensor may not include", "c-api")

    def test_refuses_the_core_in_an_installed_header(self):
        self.assert_one({"capi/include/tutti/tensor.h": '#include "core/tensor/tensor.h"\n'},
                        "c-api may not include")

    def test_refuses_the_core_in_the_command_the_bindings_and_the_examples(self):
        for path in ("capi/tool/main.cc", "bindings/swig/tutti.i", "examples/c/train.c"):
            self.assert_one({path: '#include "core/base/status.h"\n'}, path, "may not include")

    def test_refuses_a_file_that_a_binding_includes_by_the_words_of_swig(self):
        self.assert_one({"bindings/swig/tutti.i": '%include "core/base/status.h"\n'},
                        "bindings may not include")

    def test_refuses_internals_of_the_c_functions_in_a_binding(self):
        self.assert_one({"bindings/swig/facade.cc": '#include "capi/src/handles.h"\n'},
                        "bindings may not include")

    def test_refuses_a_generated_header_in_a_header(self):
        self.assert_one({"core/dataset/graph/graph.h": '#include "tutti/v1/graph.pb.h"\n'},
                        "generated header")

    def test_refuses_generated_headers_of_the_core_outside_it(self):
        self.assert_one({"capi/src/dataset.cc": '#include "tutti/v1/graph.pb.h"\n'},
                        "belongs to the core")

    def test_refuses_a_dependency_in_the_build_that_the_table_lacks(self):
        self.assert_one({"core/tensor/CMakeLists.txt":
                         "tutti_room(tensor DEPENDS base dataset LINK fmt::fmt)\n"},
                        "tensor may not depend on dataset")

    def test_overlooks_comments(self):
        self.assertEqual(self.violations({
            "core/base/x.h":
                '// #include "core/tensor/x.h"\n'
                '/*\n#include "core/tensor/x.h"\n*/\n',
        }), [])

    def test_accepts_the_arrows_between_sub_rooms(self):
        self.assertEqual(self.violations({
            "core/collective/call/transport.h": '#include "core/base/status.h"\n',
            "core/collective/stream/link.h":
                '#include "core/collective/stream/frame.h"\n'
                '#include "core/collective/stream/algorithms/ring.h"\n'
                '#include "core/collective/call/transport.h"\n',
            "core/collective/group/forming.cc":
                '#include "core/cluster/job/cluster.h"\n'
                '#include "core/collective/stream/link.h"\n',
            "core/strategy/strategy.h": '#include "core/collective/communicator/communicator.h"\n',
            "capi/src/record.cc": '#include "core/dataset/records/writer.h"\n',
        }), [])

    def test_refuses_an_include_of_a_sub_room_above(self):
        self.assert_one({"core/collective/call/x.cc":
                         '\n#include "core/collective/stream/link.h"\n'},
                        "core/collective/call/x.cc:2", "collective/call may not include",
                        "(collective/stream)", "it may include nothing else")

    def test_refuses_an_include_of_a_sub_room_beside(self):
        self.assert_one({"core/collective/shm/x.h": '#include "core/collective/thread/x.h"\n'},
                        "collective/shm may not include", "it may include call, select")

    def test_refuses_an_include_out_of_a_nested_sub_room(self):
        self.assert_one({"core/collective/stream/algorithms/x.cc": '#include "../link.h"\n',
                         "core/collective/stream/link.h": ""},
                        "collective/stream/algorithms may not include", "(collective/stream)")

    def test_refuses_an_include_of_a_sub_room_by_a_visitor_that_it_does_not_name(self):
        self.assert_one({"core/strategy/x.h": '#include "core/collective/stream/link.h"\n'},
                        "strategy may not include", "open to tests only")
        self.assert_one({"core/collective/stream/x.h": '#include "core/cluster/sockets/x.h"\n'},
                        "collective/stream may not include", "open to collective/group, runtime")
        self.assert_one({"core/runtime/x.h": '#include "core/cluster/auth/job_secret.h"\n'},
                        "runtime may not include", "open to collective/group only")

    def test_refuses_a_file_of_a_divided_room_outside_its_sub_rooms(self):
        for path in ("core/cluster/x.h", "core/cluster/misc/x.h", "core/cluster/auth/deep/x.h"):
            self.assert_one({path: ""}, path, "lies in no sub-room of cluster", "auth, control")

    def test_refuses_an_include_of_a_file_outside_the_sub_rooms(self):
        self.assert_one({"core/runtime/x.h": '#include "core/cluster/cluster.h"\n'},
                        "core/cluster/cluster.h", "lies in no sub-room of cluster")

    def test_lets_tests_into_every_sub_room_of_the_rooms_that_theirs_may_include(self):
        behind = ('#include "core/collective/stream/link.h"\n'
                  '#include "core/cluster/testing/port_testing.h"\n')
        for path in ("core/collective/call/x_test.cc", "core/collective/call/x_benchmark.cc",
                     "core/collective/testing/ranks.h", "core/strategy/team_test_fixture.h"):
            self.assertEqual(self.violations({path: behind}), [])
        self.assert_one({"core/dataset/graph/x_test.cc": '#include "core/cluster/job/x.h"\n'},
                        "dataset may not include")

    def test_refuses_what_is_for_tests_in_other_sources(self):
        for path in ("core/cluster/job/x.cc", "core/runtime/x.cc"):
            self.assert_one({path: '#include "core/cluster/testing/simulated_job.h"\n'},
                            path, "may not include")

    def test_the_visitors_are_sub_rooms_and_parts_that_may_include_the_room(self):
        for sub_room, visitors in include_directions.VISITORS.items():
            room, _, inside = sub_room.partition("/")
            self.assertIn(inside, include_directions.SUB_ROOMS[room])
            for visitor in visitors:
                part, _, folder = visitor.partition("/")
                self.assertIn(room, include_directions.ARROWS[part], visitor)
                self.assertNotEqual(part, room)
                if part in include_directions.SUB_ROOMS:
                    self.assertIn(folder, include_directions.SUB_ROOMS[part])

    def test_a_plugin_sees_the_installed_headers_alone(self):
        headers = {"capi/include/tutti/plugin.h": "#include <tutti/abi.h>\n",
                   "capi/include/tutti/abi.h": "", "capi/include/tutti/status.h": ""}
        self.assertEqual(self.violations({
            **headers,
            "core/cuda/plugin.cc": "#include <tutti/plugin.h>\n#include <tutti/status.h>\n",
            "core/cuda/kernels/sum.cu": '#include "core/cuda/kernels/number.h"\n',
            "core/cuda/kernels/number.h": "",
            "core/device/plugin.h": "#include <tutti/plugin.h>\n"}), [])
        self.assert_one({"core/cuda/kernels/sum.cu": '#include "core/tensor/half.h"\n'},
                        "core/cuda/kernels/sum.cu:1", "cuda may not include")
        self.assert_one({**headers, "core/device/plugin.h": "#include <tutti/status.h>\n"},
                        "device may not include tutti/status.h")
        self.assert_one({**headers, "core/tensor/tensor.h": "#include <tutti/plugin.h>\n"},
                        "tensor may not include tutti/plugin.h")
        self.assert_one({"core/device/device.h": '#include "core/cuda/plugin.h"\n'},
                        "device may not include")

    def test_a_circle_in_the_table_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "a -> b -> a"):
            include_directions.closure({"a": ["b"], "b": ["a"]})

    def test_the_program_fails_where_there_is_nothing_to_check(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, include_directions.__file__, folder],
                                  stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("nothing to check", done.stdout)

    def test_the_program_fails_on_a_violation_and_passes_without(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "core" / "base" / "x.cc"
            source.parent.mkdir(parents=True)
            for text, status in (("", 0), ('#include "core/tensor/x.h"\n', 1)):
                source.write_text(text)
                done = subprocess.run([sys.executable, include_directions.__file__, folder],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
