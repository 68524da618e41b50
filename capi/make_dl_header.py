"""Writes tutti/tutti_dl.h, the table of function pointers for programs that load the library with
dlopen, from the declarations of the other headers.

    make_dl_header.py OUTPUT
"""

import pathlib
import sys

import declarations

HEAD = """\
/* The library through dlopen: a table of typed function pointers and its loader, for programs that
 * are not linked with libtutti.
 *
 *   tutti_dl tutti;
 *   char error[256];
 *   if (tutti_dl_open(NULL, &tutti, error, sizeof(error)) != 0) { puts(error); return 1; }
 *   printf("%s\\n", tutti.api_version_string());
 *   tutti_dl_close(&tutti);
 *
 * A field is named for its function without the tutti_ in front. Generated from the other
 * headers. */
#ifndef TUTTI_TUTTI_DL_H_
#define TUTTI_TUTTI_DL_H_

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_dl {
  void *library; /* what dlopen gave */
"""

LOADER = """\
} tutti_dl;

/* One function pointer of `size` bytes from the library; 0 when it is there. */
static inline int tutti_dl_load_(void *library, const char *name, void *function, size_t size,
                                 char *error, size_t error_size) {
  void *address = dlsym(library, name);
  if (address != NULL && size == sizeof(address)) {
    memcpy(function, &address, size);
    return 0;
  }
  if (error != NULL && error_size > 0) {
    snprintf(error, error_size,
             "tutti_dl_open: the library has no %s: it is older than this program's headers "
             "(%d.%d)",
             name, TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR);
  }
  return -1;
}

/* Gives the library back; the table is zeroed. The library itself stays in the process. */
static inline void tutti_dl_close(tutti_dl *table) {
  if (table->library != NULL) dlclose(table->library);
  memset(table, 0, sizeof(*table));
}

/* Loads `path` (NULL: "libtutti.so.0", where the loader looks) with dlopen's `flags` and fills the
 * table. 0 on success; -1 when the library or one of its functions is not there: the table is
 * zeroed and `error` (may be NULL) says why. */
static inline int tutti_dl_open_with_flags(const char *path, int flags, tutti_dl *table,
                                           char *error, size_t error_size) {
  memset(table, 0, sizeof(*table));
  table->library = dlopen(path != NULL ? path : "libtutti.so.0", flags);
  if (table->library == NULL) {
    const char *reason = dlerror();
    if (error != NULL && error_size > 0) {
      snprintf(error, error_size, "tutti_dl_open: %s", reason != NULL ? reason : "dlopen failed");
    }
    return -1;
  }
  if (0
"""

TAIL = """\
  ) {
    tutti_dl_close(table);
    return -1;
  }
  return 0;
}

/* As above with RTLD_NOW | RTLD_LOCAL. In a process that has another protobuf in its global scope
 * (TensorFlow's, say) use tutti_dl_open_with_flags and add RTLD_DEEPBIND. */
static inline int tutti_dl_open(const char *path, tutti_dl *table, char *error,
                                size_t error_size) {
  return tutti_dl_open_with_flags(path, RTLD_NOW | RTLD_LOCAL, table, error, error_size);
}

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_TUTTI_DL_H_ */
"""


def header() -> str:
    functions = declarations.all_functions()
    text = HEAD
    for function in functions:
        field = function.name.removeprefix("tutti_")
        pointer = declarations.spell(function.result, f"(*{field})")
        text += f"  {pointer}({function.parameter_text});\n"
    text += LOADER
    for function in functions:
        field = f"table->{function.name.removeprefix('tutti_')}"
        text += (
            f'      || tutti_dl_load_(table->library, "{function.name}", &{field}, sizeof({field}),'
            " error, error_size) != 0\n"
        )
    return text + TAIL


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(header())
