/** Checkpoints. */
package org.tutti.train;
