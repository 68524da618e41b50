/** Tutti: distributed training for Java. */
module org.tutti {
  exports org.tutti;
  exports org.tutti.data;
  exports org.tutti.distribute;
  exports org.tutti.train;
}
