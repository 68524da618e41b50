"""One build beside every NumPy: what differs between NumPy 1 and 2 (where a type's element size
stands, and how many dimensions there are), and which NumPy is refused, in which words."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import tutti

NUMPY_2 = int(np.__version__.split(".", maxsplit=1)[0]) >= 2
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
try:
    import ml_dtypes
except (ImportError, AttributeError):  # the latter where it is too new for this NumPy
    ml_dtypes = None


def address(array):
    return array.__array_interface__["data"][0]


class ArraysTest(unittest.TestCase):
    def dtypes(self):
        found = [np.dtype(name) for name in DTYPES]
        return found + [np.dtype(ml_dtypes.bfloat16)] if ml_dtypes else found

    def test_strides_are_those_of_the_elements_size_in_both_directions(self):
        for dtype in self.dtypes():
            with self.subTest(dtype=dtype):
                array = np.arange(24).reshape(4, 6).astype(dtype)
                part = array[::2, ::-2].T
                tensor = tutti.Tensor(part)
                self.assertEqual((tensor.shape, tensor.dtype), (part.shape, dtype))
                back = tensor.numpy()
                self.assertEqual((address(back), back.strides), (address(part), part.strides))
                np.testing.assert_array_equal(back, part)

    def test_both_types_of_int64_are_one_dtype(self):
        for name, expected in (("l", np.int64), ("q", np.int64), ("L", np.uint64),
                               ("Q", np.uint64)):
            array = np.arange(4).astype(name)
            self.assertEqual(tutti.Tensor(array).dtype, expected)
            self.assertEqual(address(tutti.Tensor(array).numpy()), address(array))

    def test_scalars_keep_type_and_value(self):
        for dtype in self.dtypes():
            with self.subTest(dtype=dtype):
                scalar = np.ones(1, dtype)[0]
                row, = tutti.data.Dataset.from_tensors(scalar)
                self.assertIs(type(row), type(scalar))
                self.assertEqual(row, scalar)

    def test_read_only_arrays_give_read_only_tensors_without_a_copy(self):
        for dtype in self.dtypes():
            with self.subTest(dtype=dtype):
                array = np.ones((3, 4), dtype)
                array.flags.writeable = False
                back = tutti.Tensor(array).numpy()
                self.assertEqual(address(back), address(array))
                self.assertFalse(back.flags.writeable)

    def test_other_byte_orders_and_unaligned_arrays_are_copied(self):
        swapped = np.arange(6, dtype=">i4").reshape(2, 3)
        np.testing.assert_array_equal(tutti.Tensor(swapped).numpy(), swapped)
        self.assertEqual(tutti.Tensor(swapped).dtype, np.int32)
        packed = np.zeros(3, [("tag", "u1"), ("value", "f8")])
        packed["value"] = [1, 2, 3]
        self.assertEqual(tutti.Tensor(packed["value"]).numpy().tolist(), [1, 2, 3])

    def test_as_many_dimensions_as_numpy_has(self):
        most = 64 if NUMPY_2 else 32
        array = np.ones((1,) * most, np.float32)
        back = tutti.Tensor(array).numpy()
        self.assertEqual((back.shape, address(back)), (array.shape, address(array)))
        deep = 1.5
        for _ in range(most):
            deep = [deep]
        self.assertEqual(tutti.Tensor(deep).shape, (1,) * most)
        with self.assertRaisesRegex(ValueError, f"nested more than {most} deep"):
            tutti.Tensor([deep])

    def test_texts_cross_as_arrays_of_objects(self):
        array = np.array([[b"a", b"b\0"], [b"", b"d"]], object)
        self.assertEqual(tutti.Tensor(array.T).numpy().tolist(), array.T.tolist())
        self.assertEqual(tutti.Tensor(np.array(["x", "yz"])).numpy().tolist(), [b"x", b"yz"])


class RefusedTest(unittest.TestCase):
    """In a Python whose NumPy is one of these files."""

    def refusal(self, numpy, table="", system=False):
        """The line that importing the package ends with. `numpy` and `table` are the sources of the
        modules numpy and numpy._core._multiarray_umath; `system`: in a Python into which pip does
        not install."""
        with tempfile.TemporaryDirectory() as folder:
            core = pathlib.Path(folder, "numpy", "_core")
            core.mkdir(parents=True)
            (core.parent / "__init__.py").write_text(numpy, encoding="utf-8")
            (core / "__init__.py").touch()
            (core / "_multiarray_umath.py").write_text(table, encoding="utf-8")
            pathlib.Path(folder, "EXTERNALLY-MANAGED").touch()
            package = str(pathlib.Path(tutti.__file__).parent.parent)
            program = (f"import sys, sysconfig\n"
                       f"sys.path[:0] = [{folder!r}, {package!r}]\n"
                       f"sysconfig.get_path = lambda name: {folder!r}\n"
                       f"sys.base_prefix = {'sys.prefix' if system else repr('/elsewhere')}\n"
                       "import tutti\n")
            done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True,
                                  text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr.splitlines()[-1]

    pip = f"{sys.executable} -m pip install"
    environment = ("an environment: python3 -m venv FOLDER && "
                   "FOLDER/bin/python -m pip install 'numpy>=1.23.2,<3', and tutti into it.")

    def test_no_numpy(self):
        numpy = "raise ModuleNotFoundError('No module named numpy', name='numpy')"
        start = (f"ImportError: tutti needs NumPy, which this Python ({sys.executable}) does not "
                 "have. ")
        self.assertEqual(self.refusal(numpy),
                         f"{start}Install it: {self.pip} 'numpy>=1.23.2,<3'")
        self.assertEqual(self.refusal(numpy, system=True), f"{start}Install the package "
                         f"python3-numpy, or make {self.environment}")

    def test_a_numpy_that_cannot_be_imported(self):
        # Its library is none of Tutti's: no package of Tutti's is advised.
        for reason in ("libblas.so.3: cannot open shared object file: No such file or directory",
                       "numpy.core.multiarray failed to import"):
            self.assertEqual(
                self.refusal(f"raise ImportError({reason!r})"),
                "ImportError: tutti needs NumPy, and cannot use the one of this Python. NumPy "
                f"cannot be imported: {reason}. Install it again: {self.pip} --force-reinstall "
                "'numpy>=1.23.2,<3'")

    def test_a_numpy_without_its_table(self):
        self.assertIn("NumPy cannot be imported: module 'numpy._core._multiarray_umath' has no "
                      "attribute '_ARRAY_API'. Install it again: ",
                      self.refusal("__version__ = '2.9.1'"))

    def test_a_numpy_that_is_too_old(self):
        for version in ("1.22.4", "1.23.1", "1.9", "0.9.8"):
            start = ("ImportError: tutti needs NumPy, and cannot use the one of this Python. NumPy "
                     f"{version} is too old: tutti needs 1.23.2 or newer. ")
            numpy = f"__version__ = {version!r}"
            self.assertEqual(self.refusal(numpy),
                             f"{start}Install another one: {self.pip} 'numpy>=1.23.2,<3'")
            self.assertEqual(self.refusal(numpy, system=True), f"{start}Make {self.environment}")

    def test_a_numpy_of_an_abi_to_come(self):
        table = """
import ctypes
function = ctypes.CFUNCTYPE(ctypes.c_uint)(lambda: 0x03000000)
entries = (ctypes.c_void_p * 1)(ctypes.cast(function, ctypes.c_void_p))
make = ctypes.pythonapi.PyCapsule_New
make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
_ARRAY_API = make(ctypes.addressof(entries), None, None)
"""
        self.assertIn("NumPy 3.0.0 is too new: tutti knows the C interface of NumPy 1 and 2. "
                      f"Install another one: {self.pip} 'numpy>=1.23.2,<3'",
                      self.refusal("__version__ = '3.0.0'", table))


if __name__ == "__main__":
    unittest.main()
