// DLPack in Python's form: capsules named "dltensor" (before 1.0) and "dltensor_versioned".
// https://dmlc.github.io/dlpack/latest/python_spec.html
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_DLPACK_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_DLPACK_H_

#include "../facade/dlpack_layout.h"
#include "arrays.h"

namespace tutti_python {

inline void FreeDlpackCapsule(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    auto *managed = static_cast<DLManagedTensor *>(PyCapsule_GetPointer(capsule, "dltensor"));
    if (managed->deleter != nullptr) managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto *managed = static_cast<DLManagedTensorVersioned *>(
        PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
}

// A refusal of the export is a BufferError, as the protocol says.
inline PyObject *RaiseBufferError(tutti_status *status) {
  PyErr_SetString(PyExc_BufferError, tutti_status_get_message(status));
  tutti_status_release(status);
  return nullptr;
}

inline PyObject *DlpackOf(const tutti_tensor *tensor, bool versioned, bool copy,
                          tutti_optional_int64 stream) {
  tutti_dlpack_options options = TUTTI_DLPACK_OPTIONS_INIT;
  options.stream = stream;
  options.copy = copy ? TUTTI_TRUE : TUTTI_FALSE;
  if (versioned) {
    DLManagedTensorVersioned *managed = nullptr;
    tutti_status *status = tutti_tensor_to_dlpack(tensor, &options, &managed);
    if (status != nullptr) return RaiseBufferError(status);
    PyObject *capsule = PyCapsule_New(managed, "dltensor_versioned", &FreeDlpackCapsule);
    if (capsule == nullptr) managed->deleter(managed);
    return capsule;
  }
  DLManagedTensor *managed = nullptr;
  tutti_status *status = tutti_tensor_to_dlpack_unversioned(tensor, &options, &managed);
  if (status != nullptr) return RaiseBufferError(status);
  PyObject *capsule = PyCapsule_New(managed, "dltensor", &FreeDlpackCapsule);
  if (capsule == nullptr) managed->deleter(managed);
  return capsule;
}

// What the object itself calls its device ("cuda:0"), else DLPack's numbers.
inline bool RaiseElsewhere(PyObject *object, long device_type, long device_index,
                           const char *reason) {
  Owned device(PyObject_GetAttrString(object, "device"));
  Owned text(device ? PyObject_Str(device.get()) : nullptr);
  PyErr_Clear();
  if (text) {
    PyErr_Format(PyExc_BufferError,
                 "an object of type %s lies on %U (DLPack's device type %ld, index %ld); only "
                 "the CPU's memory and that of the runtime's GPUs can be used (%s): copy it there "
                 "first",
                 Py_TYPE(object)->tp_name, text.get(), device_type, device_index, reason);
  } else {
    PyErr_Format(PyExc_BufferError,
                 "an object of type %s lies on DLPack device type %ld, index %ld; only the CPU's "
                 "memory (1) and that of the runtime's GPUs (2) can be used (%s): copy it there "
                 "first",
                 Py_TYPE(object)->tp_name, device_type, device_index, reason);
  }
  return false;
}

// A tensor of PyTorch that gradients are computed for gives its memory only without that history,
// which is the same memory. New reference; null without an exception for all else.
inline PyObject *WithoutHistory(PyObject *object) {
  Owned tracked(PyObject_GetAttrString(object, "requires_grad"));
  if (!tracked || PyObject_IsTrue(tracked.get()) != 1 ||
      !PyObject_HasAttrString(object, "detach")) {
    PyErr_Clear();
    return nullptr;
  }
  return PyObject_CallMethod(object, "detach", nullptr);
}

// The handle of the stream on which the library uses memory of CUDA's device `index`; false with an
// exception set.
inline bool StreamOfCuda(PyObject *object, long index, int64_t *out) {
  tutti_stream *stream = nullptr;
  tutti_status *status = tutti_device_find_stream(CurrentRuntime(), index, &stream);
  if (status != nullptr && tutti_status_get_code(status) == TUTTI_NOT_FOUND) {
    RaiseElsewhere(object, 2, index, tutti_status_get_message(status));
    tutti_status_release(status);
    return false;
  }
  if (!Check(status)) return false;
  *out = tutti_stream_get_handle(stream);
  tutti_stream_release(stream);
  return true;
}

inline bool RefuseReadOnly(PyObject *object, const char *what) {
  PyErr_Format(PyExc_ValueError,
               "the object of type %s that is written %s: give one that shares its memory and may "
               "be written",
               Py_TYPE(object)->tp_name, what);
  return false;
}

inline bool TensorOfDlpack(PyObject *object, Writing writing, tutti_tensor **out) {
  Owned plain(WithoutHistory(object));
  if (PyErr_Occurred()) return false;
  if (plain) object = plain.get();
  Owned device(PyObject_CallMethod(object, "__dlpack_device__", nullptr));
  if (!device) return false;
  long device_type = 0, device_index = 0;
  if (!PyArg_ParseTuple(device.get(), "ll", &device_type, &device_index)) return false;
  if (device_type != 1 && device_type != 2) {
    return RaiseElsewhere(object, device_type, device_index, "it is neither");
  }
  Owned method(PyObject_GetAttrString(object, "__dlpack__"));
  Owned none(PyTuple_New(0));
  Owned arguments(Py_BuildValue("{s(ii)}", "max_version", 1, 0));
  if (!method || !none || !arguments) return false;
  Owned older(PyDict_New());
  if (!older) return false;
  if (device_type == 2) {
    int64_t stream = 0;
    if (!StreamOfCuda(object, device_index, &stream)) return false;
    Owned number(PyLong_FromLongLong(stream));
    if (!number || PyDict_SetItemString(arguments.get(), "stream", number.get()) != 0 ||
        PyDict_SetItemString(older.get(), "stream", number.get()) != 0) {
      return false;
    }
  }
  Owned capsule(PyObject_Call(method.get(), none.get(), arguments.get()));
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // it speaks the older protocol
    PyErr_Clear();
    capsule.reset(PyObject_Call(method.get(), none.get(), older.get()));
  }
  if (!capsule) return false;
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned")) {
    auto *managed = static_cast<DLManagedTensorVersioned *>(
        PyCapsule_GetPointer(capsule.get(), "dltensor_versioned"));
    // Bit 0: read-only, bit 1: a copy, which would take the result with it.
    if (writing == Writing::kYes && (managed->flags & 1) != 0) {
      return RefuseReadOnly(object, "is read-only");
    }
    if (writing == Writing::kYes && (managed->flags & 2) != 0) {
      return RefuseReadOnly(object, "gives a copy of itself");
    }
    if (!Check(tutti_tensor_from_dlpack(CurrentRuntime(), managed, out))) return false;
    PyCapsule_SetName(capsule.get(), "used_dltensor_versioned");
    return true;
  }
  if (PyCapsule_IsValid(capsule.get(), "dltensor")) {
    auto *managed = static_cast<DLManagedTensor *>(PyCapsule_GetPointer(capsule.get(), "dltensor"));
    if (!Check(tutti_tensor_from_dlpack_unversioned(CurrentRuntime(), managed, out))) return false;
    PyCapsule_SetName(capsule.get(), "used_dltensor");
    return true;
  }
  PyErr_Format(PyExc_TypeError, "__dlpack__ of an object of type %s gave no DLPack capsule",
               Py_TYPE(object)->tp_name);
  return false;
}

}  // namespace tutti_python

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_DLPACK_H_
