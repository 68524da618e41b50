package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.tutti.distribute.MirroredStrategy;

class DeviceTest {
  @Test
  void specsAreParsedAndMerged() {
    final DeviceSpec spec = DeviceSpec.parse("/job:worker/task:0/device:cpu:3");
    assertEquals("worker", spec.job());
    assertNull(spec.replica());
    assertEquals(0L, spec.task());
    assertEquals("CPU", spec.deviceType());
    assertEquals(3L, spec.deviceIndex());
    assertEquals("/job:worker/task:0/device:CPU:3", spec.toString());
    assertEquals(spec, new DeviceSpec("worker", null, 0L, "cpu", 3L));
    assertEquals(spec.hashCode(), new DeviceSpec("worker", null, 0L, "CPU", 3L).hashCode());
    assertEquals("/job:worker/task:1/device:GPU:3",
        spec.merge("/task:1/device:GPU:3").toString());
    assertEquals("/job:ps/task:0/device:CPU:3", spec.withJob("ps").toString());
    assertEquals(new DeviceSpec("ps", 1L, 2L, "GPU", 4L),
        new DeviceSpec(null, null, null, null, null).withJob("ps").withReplica(1L).withTask(2L)
            .withDeviceType("GPU").withDeviceIndex(4L));
    assertNotEquals(spec, spec.withTask(null));
  }

  @Test
  void whatIsNoDeviceIsRefused() {
    for (final String text : new String[] {
             "/device:", "/job:worker/job:ps", "/task:x", "/job:worker/tsk:1", "foo"}) {
      final TuttiException refused =
          assertThrows(TuttiException.InvalidArgument.class, () -> DeviceSpec.parse(text));
      assertTrue(refused.getMessage().contains(text.substring(text.lastIndexOf('/') + 1)),
          refused.getMessage());
    }
    assertThrows(TuttiException.InvalidArgument.class,
        () -> new DeviceSpec(null, null, -3L, null, null));
  }

  @Test
  void devicesAndPluginsDescribeThemselves() {
    assertEquals("CPU:0", TuttiRuntime.devices("CPU").get(0));
    final String cpu = TuttiRuntime.describeDevice("CPU:0");
    assertTrue(cpu.startsWith("{\"name\": \"CPU:0\", \"type\": \"CPU\""), cpu);
    final String plugins = TuttiRuntime.describePlugins();
    assertTrue(plugins.startsWith("[{\"name\": \"cuda\", \"file\": \""), plugins);
    final TuttiException absent = assertThrows(TuttiException.NotFound.class,
        () -> TuttiRuntime.describeDevice("GPU:99"));
    assertTrue(absent.getMessage().contains("no GPU:99"), absent.getMessage());
  }

  @Test
  void scopesNest() {
    assertNull(DeviceSpec.current());
    try (DeviceSpec.Scope outer = DeviceSpec.scope("/job:train")) {
      try (DeviceSpec.Scope inner = DeviceSpec.scope("/device:GPU:1")) {
        assertEquals("/job:train/device:GPU:1", DeviceSpec.current().toString());
        try (DeviceSpec.Scope cleared = DeviceSpec.scope((String) null)) {
          assertNull(DeviceSpec.current());
        }
      }
      assertEquals("/job:train", DeviceSpec.current().toString());
      try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
        strategy.run((replica, none) -> {
          assertEquals("/job:train", DeviceSpec.current().toString());
          return null;
        });
      }
    }
    assertNull(DeviceSpec.current());
  }
}
