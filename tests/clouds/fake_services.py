"""Fakes of the services that resolvers ask: HTTPS servers on loopback with a certificate of their
own, which a test tells what to answer."""

import http.server
import json
import pathlib
import ssl
import subprocess
import threading
import urllib.parse


class FakeService:
    """Serves on a port of its own until closed. Subclasses answer in `answer(method, path, query,
    headers, body)` with (status, headers, body as a dict or bytes); `requests` lists what came.

    scripted: answers that come first, one for each request, or functions of the handler that write
    what they like.
    """

    def __init__(self, folder, tls=True):
        self.requests = []
        self.scripted = []
        self.lock = threading.Lock()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def serve(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                with service.lock:
                    service.requests.append((self.command, url.path, query, dict(self.headers),
                                             body))
                    scripted = service.scripted.pop(0) if service.scripted else None
                if callable(scripted):
                    scripted(self)
                    return
                status, headers, answer = scripted or service.answer(
                    self.command, url.path, query, self.headers, body)
                if not isinstance(answer, bytes):
                    answer = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = serve

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # clients that give up are what some tests are about

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        if tls:
            self.ca_file = make_certificate(folder)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.ca_file, self.ca_file.with_suffix(".key"))
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def answer(self, method, path, query, headers, body):
        raise NotImplementedError

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def make_certificate(folder, name="ca"):
    """A certificate for 127.0.0.1 and its key, folder/name.crt and .key."""
    path = pathlib.Path(folder) / f"{name}.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-out", str(path), "-keyout",
                    str(path.with_suffix(".key"))], check=True, stderr=subprocess.DEVNULL)
    return path


class FakeKubernetes(FakeService):
    """pods: label selector -> [(name, phase, pod IP)]; pages of `page` pods. Takes `token` only."""

    def __init__(self, folder):
        self.pods = {}
        self.page = 2
        self.token = "token-of-the-account-0123456789"
        super().__init__(folder)

    def answer(self, method, path, query, headers, body):
        if headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {}, {"kind": "Status", "message": "Unauthorized"}
        if path != "/api/v1/namespaces/training/pods":
            return 404, {}, {"kind": "Status", "message": f"{path} is not there"}
        pods = self.pods.get(query.get("labelSelector"), [])
        begin = int(query.get("continue", 0))
        end = begin + self.page
        return 200, {}, {
            "kind": "PodList", "apiVersion": "v1",
            "metadata": {"continue": str(end) if end < len(pods) else ""},
            "items": [{"metadata": {"name": name},
                       "status": {"phase": phase, "podIP": address, "hostIP": "10.9.9.9"}}
                      for name, phase, address in pods[begin:end]]}


class FakeMetadata(FakeService):
    """The metadata server of an instance, over plain HTTP."""

    def __init__(self, folder):
        super().__init__(folder, tls=False)

    def answer(self, method, path, query, headers, body):
        if headers.get("Metadata-Flavor") != "Google":
            return 403, {}, b"the header Metadata-Flavor is missing"
        known = {"project/project-id": b"a-project",
                 "instance/zone": b"projects/7/zones/us-west1-a",
                 "instance/service-accounts/default/token":
                     b'{"access_token": "ya29.of-the-instance", "expires_in": 3599}'}
        answer = known.get(path.removeprefix("/computeMetadata/v1/"))
        return (404, {}, b"not found") if answer is None else (200, {}, answer)


class FakeComputeEngine(FakeService):
    """instances: name -> address, all of the group "a-group"; pages of `page`."""

    def __init__(self, folder):
        self.instances = {}
        self.page = 2
        super().__init__(folder)

    def answer(self, method, path, query, headers, body):
        if headers.get("Authorization") != "Bearer ya29.of-the-instance":
            return 401, {}, {"error": {"code": 401, "message": "Invalid Credentials"}}
        place = "/compute/v1/projects/a-project/zones/us-west1-a/"
        names = list(self.instances)
        if method == "POST" and path == place + "instanceGroups/a-group/listInstances":
            if json.loads(body) != {"instanceState": "RUNNING"}:
                return 400, {}, {"error": {"code": 400, "message": "which instances?"}}
            begin = int(query.get("pageToken", 0))
            end = begin + self.page
            answer = {"items": [{"instance": f"https://www.googleapis.com{place}instances/{name}",
                                 "status": "RUNNING"} for name in names[begin:end]]}
            if end < len(names):
                answer["nextPageToken"] = str(end)
            return 200, {}, answer
        name = path.removeprefix(place + "instances/")
        if method == "GET" and name in self.instances:
            return 200, {}, {"name": name,
                             "networkInterfaces": [{"networkIP": self.instances[name]}]}
        return 404, {}, {"error": {"code": 404, "message": f"{path} was not found"}}
