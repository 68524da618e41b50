package org.tutti.distribute;

import org.tutti.Value;

/** Which input pipeline a dataset is made for. */
public record InputContext(int pipelineId, int pipelineCount, int replicaCount) {
  /** The only pipeline, for one replica. */
  public InputContext() {
    this(0, 1, 1);
  }

  InputContext(Value given) {
    this(given.get("input_pipeline_id").intValue(), given.get("num_input_pipelines").intValue(),
        given.get("num_replicas_in_sync").intValue());
  }

  /** What one replica gets of a batch of all replicas; INVALID_ARGUMENT when it is no multiple. */
  public long perReplicaBatchSize(long globalBatchSize) {
    if (globalBatchSize % replicaCount != 0) {
      throw org.tutti.TuttiException.of(org.tutti.Code.INVALID_ARGUMENT, "a batch of "
          + globalBatchSize + " cannot be divided by " + replicaCount + " replicas");
    }
    return globalBatchSize / replicaCount;
  }
}
