package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.tutti.data.Dataset;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.Strategy;

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
    assertTrue(plugins.contains("\"nccl_reason\": "), plugins);
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
          final String own = "/device:CPU:" + replica.replicaId();
          assertEquals(own, DeviceSpec.current().toString());
          assertTrue(Tensor.scalar(3).device().endsWith(own));
          try (DeviceSpec.Scope inner = DeviceSpec.scope("CPU:3")) {
            assertEquals("/device:CPU:3", DeviceSpec.current().toString());
            assertTrue(Tensor.scalar(3).device().endsWith("/device:CPU:3"));
          }
          assertEquals(own, DeviceSpec.current().toString());
          return null;
        });
        assertEquals("/job:train", DeviceSpec.current().toString());
      }
    }
    assertNull(DeviceSpec.current());
    try (DeviceSpec.Scope scope = DeviceSpec.scope("CPU:2");
         MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1");
         Variable variable = Variable.builder(1f).strategy(strategy).create()) {
      strategy.extended().update(variable, (update, updated, none) -> {
        assertEquals(
            "/device:CPU:" + update.updateReplicaId(), DeviceSpec.current().toString());
        return null;
      }, null);
      Strategy.defaultStrategy().run((replica, none) -> {
        assertEquals("/device:CPU:2", DeviceSpec.current().toString());
        return null;
      });
    }
  }

  private static final String CPU_1 = "/job:localhost/replica:0/task:0/device:CPU:1";

  private static List<Executable> thingsOnADevice() {
    return List.of(() -> Tensor.of(new float[] {1}), () -> Tensor.zeros(DType.INT32, 2),
        () -> Variable.of(1f), () -> Strategy.current().run((replica, none) -> null),
        () -> Dataset.range(3));
  }

  @Test
  void whatIsMadeInAScopeLiesThere() throws Throwable {
    try (DeviceSpec.Scope scope = DeviceSpec.scope("CPU:1")) {
      final Tensor tensor = Tensor.of(new float[] {1, 2});
      assertEquals(CPU_1, tensor.device());
      assertArrayEquals(new float[] {1, 2}, tensor.toFloatArray());
      assertEquals(CPU_1, Tensor.scalar(3).device());
      assertEquals(CPU_1, DeviceSpec.place());
      for (final Executable make : thingsOnADevice()) {
        make.execute();
      }
    }
    assertTrue(Tensor.scalar(3).device().endsWith("/device:CPU:0"));
    assertNull(DeviceSpec.place());
  }

  @Test
  void whatIsNotThereIsAnErrorOfWhatIsPlacedThere() throws Throwable {
    try (DeviceSpec.Scope scope = DeviceSpec.scope("GPU:77")) {
      for (final Executable make : thingsOnADevice()) {
        final TuttiException absent = assertThrows(TuttiException.NotFound.class, make);
        assertTrue(absent.getMessage().contains("no GPU:77; it has CPU:0 to CPU:"),
            absent.getMessage());
      }
      assertFalse(TuttiRuntime.getSoftDevicePlacement());
      TuttiRuntime.setSoftDevicePlacement(true);
      try {
        assertTrue(TuttiRuntime.getSoftDevicePlacement());
        for (final Executable make : thingsOnADevice()) {
          make.execute();
        }
      } finally {
        TuttiRuntime.setSoftDevicePlacement(false);
      }
    }
    try (DeviceSpec.Scope scope = DeviceSpec.scope("/job:ps")) {
      for (final Executable make : thingsOnADevice()) {
        final TuttiException elsewhere = assertThrows(TuttiException.Unimplemented.class, make);
        assertTrue(elsewhere.getMessage().contains("another task"), elsewhere.getMessage());
      }
    }
  }

  @Test
  void physicalDevicesAreConfiguredUntilDevicesAreUsed() {
    final LogicalDeviceConfiguration any = new LogicalDeviceConfiguration();
    try (TuttiRuntime runtime = TuttiRuntime.create(Map.of());
        TuttiRuntime.Scope scope = runtime.asDefault()) {
      assertEquals(List.of("/physical_device:CPU:0"), TuttiRuntime.physicalDevices("CPU"));
      assertNull(TuttiRuntime.getLogicalDeviceConfiguration("CPU:0"));
      assertTrue(assertThrows(TuttiException.InvalidArgument.class,
          () -> TuttiRuntime.setLogicalDeviceConfiguration(
              "CPU:0", new LogicalDeviceConfiguration(1024)))
                     .getMessage().contains("leave memory_limit out"));
      assertThrows(TuttiException.NotFound.class,
          () -> TuttiRuntime.setLogicalDeviceConfiguration("GPU:77", any));
      TuttiRuntime.setLogicalDeviceConfiguration("/physical_device:CPU:0", any, any);
      assertEquals(List.of(any, any), TuttiRuntime.getLogicalDeviceConfiguration("CPU:0"));
      TuttiRuntime.setVisibleDevices("GPU");
      assertTrue(assertThrows(TuttiException.InvalidArgument.class,
          () -> TuttiRuntime.setVisibleDevices("CPU"))
                     .getMessage().contains("cannot be hidden"));
      assertEquals(List.of("/physical_device:CPU:0"), TuttiRuntime.visibleDevices(null));
      assertEquals(List.of("CPU:0", "CPU:1"), TuttiRuntime.devices("CPU"));
      assertTrue(assertThrows(TuttiException.FailedPrecondition.class,
          () -> TuttiRuntime.setLogicalDeviceConfiguration("CPU:0", any))
                     .getMessage().contains("in use already"));
    }
  }
}
