package org.tutti.data;

/** How record files are packed. */
public enum Compression {
  NONE, GZIP, ZLIB;

  int number() {
    return ordinal() + 1;
  }
}
