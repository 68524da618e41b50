/** Tensors, values, variables, runtimes, communicators: what the other packages speak of. */
package org.tutti;
