"""Resolvers beside fakes of the services that they ask.

    clouds_test.py [CLASS]
"""

import os
import pathlib
import shutil
import signal
import socket
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

import fake_services
from tutti import errors
from tutti.distribute.cluster_resolver import GCEClusterResolver, KubernetesClusterResolver


class CloudTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        clean = {name: value for name, value in os.environ.items()
                 if not name.lower().endswith("_proxy") and name != "HOSTNAME"}
        self.enterContext(unittest.mock.patch.dict(os.environ, clean, clear=True))

    def serve(self, service):
        self.addCleanup(service.close)
        return service


def slowly(handler):
    """Answers nothing as long as the test lasts."""
    handler.connection.settimeout(20)
    try:
        handler.connection.recv(1)
    except OSError:
        pass


def cut_off(handler):
    """Half of an answer, and the end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"items\": [")
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


def without_end(handler):
    """A hundred megabytes."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
    for _ in range(100):
        handler.wfile.write(b" " * (1 << 20))


class KubernetesTest(CloudTest):
    def setUp(self):
        super().setUp()
        self.api = self.serve(fake_services.FakeKubernetes(self.folder))
        (self.folder / "token").write_text(self.api.token + "\n")
        (self.folder / "namespace").write_text("training")
        os.environ["KUBERNETES_SERVICE_HOST"] = "127.0.0.1"
        os.environ["KUBERNETES_SERVICE_PORT_HTTPS"] = str(self.api.port)
        self.api.pods = {"job-name=a": [("a-10", "Running", "10.0.0.3"),
                                        ("a-9", "Running", "10.0.0.2"),
                                        ("a-1", "Running", "10.0.0.1")],
                         "job-name=b": [("b-0", "Running", "fd00::1")]}

    def resolver(self, *args, **kwargs):
        return KubernetesClusterResolver(*(args or ({"worker": ["job-name=a", "job-name=b"]},)),
                                         account_folder=str(self.folder),
                                         **{"timeout": 20, **kwargs})

    def refusal(self, error, **kwargs):
        with self.assertRaises(error) as caught:
            self.resolver(**kwargs).cluster_spec()
        self.assertNotIn(self.api.token, str(caught.exception))
        return str(caught.exception)

    def test_pods_come_in_pages_and_in_the_order_of_their_numbers(self):
        resolver = self.resolver()
        self.assertEqual(resolver.cluster_spec().as_dict(), {"worker": [
            "10.0.0.1:8470", "10.0.0.2:8470", "10.0.0.3:8470", "[fd00::1]:8470"]})
        self.assertEqual(len(self.api.requests), 3)
        self.assertEqual((resolver.task_type, resolver.task_id), (None, None))
        self.assertEqual((resolver.master(), resolver.environment), ("", ""))
        self.assertEqual(resolver.master("worker", 1), "grpc://10.0.0.2:8470")
        resolver.task_type, resolver.task_id = "worker", 2
        self.assertEqual((resolver.task_type, resolver.task_id), ("worker", 2))
        self.assertEqual(resolver.master(), "grpc://10.0.0.3:8470")

    def test_a_pod_knows_itself_by_its_name(self):
        os.environ["HOSTNAME"] = "a-10"
        resolver = self.resolver({"worker": ["job-name=a"], "ps": ["job-name=b"]}, 2222)
        self.assertEqual((resolver.task_type, resolver.task_id), ("worker", 2))
        self.assertEqual(resolver.master(), "grpc://10.0.0.3:2222")
        self.assertEqual(self.resolver(host_ip=True).cluster_spec().task_address("worker", 0),
                         "10.9.9.9:8470")

    def test_a_pod_that_does_not_run_is_a_runtime_error_that_names_it(self):
        self.api.pods["job-name=a"][1] = ("a-9", "Pending", "")
        self.assertIn("the pod \"a-9\" is not running: its phase is \"Pending\"",
                      self.refusal(RuntimeError))

    def test_a_new_token_is_read_where_the_old_one_ends(self):
        self.assertIn("does not take the token (401), and says \"Unauthorized\"", (
            setattr(self.api, "token", "another-token-0123456789"),
            self.refusal(errors.UnauthenticatedError))[1])

        def replace(handler):
            (self.folder / "token").write_text(self.api.token)
            handler.send_response(401)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        self.api.scripted = [replace]
        self.assertEqual(self.resolver().cluster_spec().num_tasks("worker"), 4)

    def test_what_the_server_refuses_has_its_class(self):
        for status, error, said in (
                (403, errors.PermissionDeniedError, "does not allow it to this account"),
                (404, errors.NotFoundError, "does not know that (404)"),
                (500, errors.UnavailableError, "fails (500)"),
                (418, RuntimeError, "answers with the status 418")):
            with self.subTest(status):
                self.api.scripted = [(status, {}, {"message": "said by the server"})]
                text = self.refusal(error)
                self.assertIn(said, text)
                self.assertIn("said by the server", text)

    def test_later_is_waited_for_within_the_deadline(self):
        self.api.scripted = [(429, {"Retry-After": "1"}, {}), (503, {"Retry-After": "0"}, {})]
        begin = time.monotonic()
        self.assertEqual(self.resolver().cluster_spec().num_tasks("worker"), 4)
        self.assertGreaterEqual(time.monotonic() - begin, 1.0)
        self.api.scripted = [(429, {"Retry-After": "3600"}, {})]
        self.assertIn("asked too often (429)", self.refusal(errors.ResourceExhaustedError))

    def test_the_token_does_not_follow_a_redirect(self):
        (self.folder / "other").mkdir()
        other = self.serve(fake_services.FakeKubernetes(self.folder / "other"))
        self.api.scripted = [(302, {"Location": f"https://127.0.0.1:{other.port}/api"}, {})]
        self.assertIn("is not followed, since the token would go along",
                      self.refusal(RuntimeError))
        self.assertEqual(other.requests, [])

    def test_another_certificate_gets_no_token(self):
        fake_services.make_certificate(self.folder, "other")
        shutil.copy(self.folder / "other.crt", self.folder / "ca.crt")
        self.assertIn("cannot prove who it is", self.refusal(errors.UnauthenticatedError))
        self.assertEqual(self.api.requests, [])

    def test_answers_that_are_none_end(self):
        for answer, error, said in (
                ((200, {}, b"no JSON"), errors.DataLossError, "no list of pods"),
                ((200, {}, {"items": [{}]}), errors.DataLossError, "a pod without a name"),
                (cut_off, errors.UnavailableError, "cannot be asked"),
                (without_end, errors.ResourceExhaustedError, "more than 32 MiB")):
            with self.subTest(said):
                self.api.scripted = [answer]
                self.assertIn(said, self.refusal(error))
        self.api.scripted = [slowly]
        begin = time.monotonic()
        self.assertIn("has not answered in time",
                      self.refusal(errors.DeadlineExceededError, timeout=0.5))
        self.assertLess(time.monotonic() - begin, 15)

    def test_an_interrupt_ends_the_wait(self):
        self.api.scripted = [slowly]
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            self.resolver(timeout=60).cluster_spec()
        self.assertLess(time.monotonic() - begin, 15)

    def test_outside_of_a_pod_it_says_so(self):
        (self.folder / "token").unlink()
        self.assertIn("service account is missing or empty", self.refusal(RuntimeError))
        del os.environ["KUBERNETES_SERVICE_HOST"]
        self.assertIn("this process is in no pod", self.refusal(RuntimeError))
        with self.assertRaisesRegex(ValueError, "tf_server_port is 0"):
            self.resolver(tf_server_port=0)

    def test_a_client_of_ones_own_is_asked_instead(self):
        def pod(name, address, phase="Running"):
            return types.SimpleNamespace(
                metadata=types.SimpleNamespace(name=name),
                status=types.SimpleNamespace(phase=phase, pod_ip=address, host_ip="10.9.9.9"))
        pods = [pod("a-10", "10.0.0.2"), pod("a-9", "10.0.0.1")]
        client = types.SimpleNamespace(list_pod_for_all_namespaces=lambda label_selector:
                                       types.SimpleNamespace(items=pods))
        resolver = KubernetesClusterResolver(override_client=client)
        self.assertEqual(resolver.cluster_spec().as_dict(),
                         {"worker": ["10.0.0.1:8470", "10.0.0.2:8470"]})
        self.assertEqual((resolver.task_type, resolver.task_id), (None, None))
        resolver.task_type, resolver.task_id = "worker", 1
        self.assertEqual(resolver.master(), "grpc://10.0.0.2:8470")
        pods.append(pod("a-1", "", "Failed"))
        with self.assertRaisesRegex(RuntimeError, "a-1.*Failed"):
            resolver.cluster_spec()
        self.assertEqual(self.api.requests, [])


class GceTest(CloudTest):
    def setUp(self):
        super().setUp()
        self.api = self.serve(fake_services.FakeComputeEngine(self.folder))
        self.metadata = self.serve(fake_services.FakeMetadata(self.folder))
        os.environ["GCE_METADATA_HOST"] = f"127.0.0.1:{self.metadata.port}"
        self.api.instances = {"vm-10": "10.0.0.3", "vm-9": "10.0.0.2", "vm-1": "10.0.0.1"}

    def resolver(self, project=None, zone=None, group="a-group", **kwargs):
        return GCEClusterResolver(project, zone, group,
                                  **{"endpoint": f"https://127.0.0.1:{self.api.port}",
                                     "ca_file": str(self.api.ca_file), "timeout": 20, **kwargs})

    def test_instances_come_in_pages_and_in_the_order_of_their_numbers(self):
        for place in ((None, None), ("a-project", "us-west1-a")):
            resolver = self.resolver(*place, task_id=1)
            self.assertEqual(resolver.cluster_spec().as_dict(), {"worker": [
                "10.0.0.1:8470", "10.0.0.2:8470", "10.0.0.3:8470"]})
            self.assertEqual((resolver.task_type, resolver.task_id, resolver.rpc_layer),
                             ("worker", 1, "grpc"))
            self.assertEqual(resolver.master(), "grpc://10.0.0.2:8470")
            self.assertEqual(resolver.master("worker", 0, "http"), "http://10.0.0.1:8470")
        resolver.task_id = 2
        self.assertEqual(resolver.master(), "grpc://10.0.0.3:8470")

    def test_credentials_are_a_token_or_have_one(self):
        for credentials in ("ya29.of-the-instance",
                            types.SimpleNamespace(token="ya29.of-the-instance")):
            resolver = self.resolver("a-project", "us-west1-a", credentials=credentials)
            self.assertEqual(resolver.cluster_spec().num_tasks("worker"), 3)
        credentials.token = None  # it is read for each request
        with self.assertRaisesRegex(errors.UnauthenticatedError, "give no token"):
            resolver.cluster_spec()
        self.assertEqual(self.metadata.requests, [])
        with self.assertRaisesRegex(errors.UnauthenticatedError, "Invalid Credentials") as caught:
            self.resolver("a-project", "us-west1-a", credentials="ya29.another").cluster_spec()
        self.assertNotIn("ya29", str(caught.exception))

    def test_what_is_wrong_says_so(self):
        with self.assertRaisesRegex(errors.NotFoundError, "was not found"):
            self.resolver(group="another").cluster_spec()
        with self.assertRaisesRegex(ValueError, "instance_group is empty"):
            self.resolver(group="")
        self.api.scripted = [(200, {}, b"[]")]
        with self.assertRaisesRegex(errors.DataLossError, "no JSON object"):
            self.resolver().cluster_spec()
        os.environ["GCE_METADATA_HOST"] = "127.0.0.1:1"
        with self.assertRaisesRegex(errors.UnavailableError, "only instances of Google Compute"):
            self.resolver().cluster_spec()

    def test_a_service_of_ones_own_is_asked_instead(self):
        class Request:
            def __init__(self, answer):
                self.execute = lambda: answer

        class Groups:
            def listInstances(self, project, zone, instanceGroup, body):
                assert (project, zone, instanceGroup) == ("p", "z", "g"), instanceGroup
                assert body == {"instanceState": "RUNNING"}
                return Request({"items": [{"instance": "https://x/instances/vm-10"}]})

            def listInstances_next(self, previous_request, previous_response):
                if previous_response["items"][0]["instance"].endswith("vm-2"):
                    return None
                return Request({"items": [{"instance": "https://x/instances/vm-2"}]})

        class Instances:
            def get(self, project, zone, instance):
                return Request({"networkInterfaces": [{"networkIP": "10.0.0." + instance[3:]}]})

        service = types.SimpleNamespace(instanceGroups=Groups, instances=Instances)
        resolver = GCEClusterResolver("p", "z", "g", port=1, task_type="chief", service=service)
        self.assertEqual(resolver.cluster_spec().as_dict(),
                         {"chief": ["10.0.0.2:1", "10.0.0.10:1"]})
        self.assertEqual(resolver.master(), "grpc://10.0.0.2:1")
        self.assertEqual(self.api.requests, [])


if __name__ == "__main__":
    if shutil.which("openssl") is None:
        print("skipped: there is no openssl, which makes the fakes' certificates")
        sys.exit(77)
    unittest.main()
