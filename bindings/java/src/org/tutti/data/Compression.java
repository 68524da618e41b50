package org.tutti.data;

/** How record files are packed. */
public enum Compression {
  /** As they are. */
  NONE,
  /** RFC 1952. */
  GZIP,
  /** RFC 1950. */
  ZLIB;

  int number() {
    return ordinal() + 1;
  }
}
