/** Strategies: the same function on several replicas, and datasets over them. */
package org.tutti.distribute;
