/** Datasets: definitions of input pipelines and their iterators. */
package org.tutti.data;
