"""Tensors: NumPy and DLPack in and out, without a copy."""

import gc
import subprocess
import sys
import unittest
import weakref

import numpy as np

import tutti

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128"]
# Whether NumPy makes arrays of objects of lists that do not fit together.
OBJECTS_OF_LISTS = np.__version__.startswith("1.23.")


def address(array):
    return array.__array_interface__["data"][0]


class Producer:
    """Something with __dlpack__ that is not NumPy's."""

    def __init__(self, array, versioned):
        self.tensor = tutti.Tensor(array)
        self.versioned = versioned

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        if options and not self.versioned:
            raise TypeError("max_version is not known here")
        return self.tensor.__dlpack__(**options)


class TensorTest(unittest.TestCase):
    def test_an_array_of_every_dtype_goes_in_and_out_without_a_copy(self):
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                array = np.arange(12).reshape(3, 4).astype(dtype)
                tensor = tutti.Tensor(array)
                self.assertEqual(tensor.address, address(array))
                self.assertEqual(tensor.dtype, np.dtype(dtype))
                self.assertEqual(tensor.shape, (3, 4))
                out = tensor.numpy()
                self.assertEqual(address(out), address(array))
                self.assertEqual(out.dtype, array.dtype)
                np.testing.assert_array_equal(out, array)

    def test_writes_show_through_in_both_directions(self):
        array = np.zeros(4, np.float32)
        view = tutti.Tensor(array).numpy()
        view[1] = 5
        array[2] = 6
        np.testing.assert_array_equal(array, [0, 5, 6, 0])
        np.testing.assert_array_equal(view, [0, 5, 6, 0])

    def test_a_read_only_array_stays_read_only(self):
        array = np.zeros(4)
        array.flags.writeable = False
        tensor = tutti.Tensor(array)
        self.assertTrue(tensor.is_read_only)
        self.assertFalse(tensor.numpy().flags.writeable)

    def test_strides_are_kept(self):
        base = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
        for name, array in {"transposed": base.T, "every second": base[::2, :, 1::2],
                            "backwards": base[::-1, :, ::-1], "of one column": base[:, 0, :],
                            "empty": base[:, :0]}.items():
            with self.subTest(name):
                tensor = tutti.Tensor(array)
                out = tensor.numpy()
                np.testing.assert_array_equal(out, array)
                if array.size:
                    self.assertEqual(address(out), address(array))
                    self.assertEqual(out.strides, array.strides)

    def test_a_broadcast_array_goes_in_without_a_copy(self):
        array = np.broadcast_to(np.arange(3.0), (4, 3))
        out = tutti.Tensor(array).numpy()
        np.testing.assert_array_equal(out, array)
        self.assertEqual(address(out), address(array))

    def test_foreign_byte_order_and_unaligned_memory_are_copied(self):
        swapped = np.arange(3, dtype=">i4")
        np.testing.assert_array_equal(tutti.Tensor(swapped).numpy(), [0, 1, 2])
        packed = np.zeros(3, np.dtype([("a", "i1"), ("b", "<f8")]))
        packed["b"] = [1, 2, 3]
        np.testing.assert_array_equal(tutti.Tensor(packed["b"]).numpy(), [1, 2, 3])

    def test_a_view_keeps_the_tensor_and_the_tensor_keeps_the_array(self):
        class Array(np.ndarray):
            pass

        array = np.arange(1000.0).view(Array)
        gone = weakref.ref(array)
        view = tutti.Tensor(array).numpy()
        del array
        gc.collect()
        self.assertEqual(view[999], 999.0)
        self.assertIsNotNone(gone())
        del view
        gc.collect()
        # The release goes over the runtime's callback thread: an end of the runtime waits for it.
        tutti.shutdown()
        gc.collect()
        for _ in range(1000):  # pending calls run between byte codes
            if gone() is None:
                break
            tutti.Tensor(1)
        self.assertIsNone(gone())

    def test_numbers_texts_and_lists_become_tensors(self):
        self.assertEqual(tutti.Tensor(3).dtype, np.int32)
        self.assertEqual(tutti.Tensor(0.5).dtype, np.float32)
        self.assertEqual(tutti.Tensor(True).dtype, np.bool_)
        self.assertEqual(tutti.Tensor([[1, 2], [3, 4]]).shape, (2, 2))
        self.assertEqual(tutti.Tensor(b"ab\0").numpy(), b"ab\0")
        self.assertEqual(tutti.Tensor("é").numpy(), "é".encode())
        texts = tutti.Tensor([b"a", b"b\0", b""])
        self.assertIs(texts.dtype, bytes)
        self.assertEqual(texts.numpy().tolist(), [b"a", b"b\0", b""])
        self.assertEqual(tutti.Tensor(np.array(["x", "yz"])).numpy().tolist(), [b"x", b"yz"])

    def test_what_is_no_tensor_is_a_type_error(self):
        for wrong in (object(), np.array([object()]), np.zeros(2, "datetime64[s]"), [object()],
                      np.zeros(2, [("a", "i4")])):
            with self.subTest(wrong=repr(wrong)), self.assertRaises(TypeError):
                tutti.Tensor(wrong)
        with self.assertRaises(ValueError):
            tutti.Tensor([[1, 2], [3]])

    def test_a_list_in_itself_is_a_value_error(self):
        # In a process of its own: what never ends would hold the interpreter's lock.
        program = """
import tutti
endless = []
endless.append(endless)
deep = 1
for _ in range(100):
    deep = (deep,)
rank, = tutti.Communicator.create_local(1)
for value in (endless, [endless], (endless,), deep):
    for use in (tutti.Tensor, rank.all_gather, rank.gather, rank.scatter, rank.all_reduce,
                lambda v: rank.all_gather_async(v), lambda v: rank.send(v, 0)):
        try:
            use(value)
        except {} as error:
            assert "dim" in str(error) or "unequal length" in str(error), error
        else:
            raise AssertionError("it was taken")
assert tutti.Tensor([[[1], [2]]]).shape == (1, 2, 1)
print("told")
""".format("(ValueError, TypeError)" if OBJECTS_OF_LISTS else "ValueError")
        ran = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual((ran.returncode, ran.stdout), (0, "told\n"), ran.stderr)

    def test_bfloat16_is_seen_as_bits_and_cast(self):
        tensor = tutti.Tensor(np.array([1.0, -2.5, 0.1], np.float32)).cast(tutti.bfloat16)
        self.assertEqual(tutti.Tensor(1.5, "bfloat16").shape, ())
        self.assertEqual(getattr(tensor.dtype, "name"), "bfloat16")
        self.assertEqual(tensor.bits().tolist(), [0x3F80, 0xC020, 0x3DCD])
        np.testing.assert_allclose(tensor.cast(np.float32).numpy(), [1.0, -2.5, 0.1], rtol=1e-2)
        again = tutti.Tensor.from_bits(tensor.bits())
        np.testing.assert_array_equal(again.bits(), tensor.bits())

    def test_views_and_copies(self):
        tensor = tutti.Tensor(np.arange(12))
        self.assertEqual(tensor.reshape(3, -1).shape, (3, 4))
        part = tensor.slice(2, 5)
        self.assertEqual(part.numpy().tolist(), [2, 3, 4])
        self.assertEqual(part.address, tensor.address + 16)
        self.assertNotEqual(tensor.copy().address, tensor.address)
        with self.assertRaises(tutti.errors.OutOfRangeError):
            tensor.slice(2, 13)
        self.assertEqual(tutti.Tensor.zeros((2, 3), "int16").numpy().tolist(), [[0] * 3] * 2)
        self.assertEqual(tutti.Tensor.empty((2, 3)).address % 64, 0)
        self.assertIn("int64[12]", repr(tensor))
        self.assertTrue(tensor.equal(np.arange(12)))
        self.assertFalse(tensor.equal(np.arange(12.0)))


class DlpackTest(unittest.TestCase):
    def test_numpy_takes_a_tensor_without_a_copy(self):
        tensor = tutti.Tensor.zeros((2, 3))
        array = np.from_dlpack(tensor)
        self.assertEqual(address(array), tensor.address)
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))

    def test_both_forms_come_in_without_a_copy(self):
        for versioned in (False, True):
            with self.subTest(versioned=versioned):
                array = np.arange(6, dtype=np.float32)
                tensor = tutti.Tensor(Producer(array, versioned))
                self.assertEqual(tensor.address, address(array))
                np.testing.assert_array_equal(tensor.numpy(), array)

    def test_read_only_memory_is_not_exported_where_the_form_cannot_say_so(self):
        array = np.arange(3.0)
        array.flags.writeable = False
        tensor = tutti.Tensor(array)
        with self.assertRaises(BufferError):
            tensor.__dlpack__()
        self.assertNotEqual(address(np.from_dlpack(_Copied(tensor))), address(array))
        self.assertTrue(tutti.Tensor(Producer(array, True)).is_read_only)

    def test_a_capsule_that_nobody_takes_is_freed(self):
        array = np.arange(3.0)
        for versioned in (None, (1, 0)):
            tutti.Tensor(array).__dlpack__(max_version=versioned)
        gc.collect()

    def test_bytes_are_a_buffer_error(self):
        with self.assertRaises(BufferError):
            tutti.Tensor(b"abc").__dlpack__()

    def test_another_device_is_a_buffer_error(self):
        class Elsewhere(Producer):
            def __dlpack_device__(self):
                return 2, 0

        with self.assertRaises(BufferError):
            tutti.Tensor(Elsewhere(np.zeros(3), True))
        with self.assertRaises(BufferError):
            tutti.Tensor(np.zeros(3)).__dlpack__(dl_device=(2, 0))


class _Copied:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        return self.tensor.__dlpack__(copy=True)


if __name__ == "__main__":
    unittest.main()
