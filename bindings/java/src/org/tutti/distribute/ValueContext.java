package org.tutti.distribute;

import org.tutti.Value;

/** For which replica a value is made. */
public record ValueContext(int replicaId, int replicaCount) {
  ValueContext(Value given) {
    this(given.get("replica_id_in_sync_group").intValue(),
        given.get("num_replicas_in_sync").intValue());
  }
}
