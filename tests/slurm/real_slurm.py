"""A real Slurm of two nodes, n1 and n2, on loopback, for as long as a test lasts."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
DAEMONS = ("slurmctld", "slurmd", "srun", "sbatch", "unshare", "mount")
CONFIGURATION = """
ClusterName=tutti
SlurmctldHost=localhost(127.0.0.1)
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ReturnToService=2
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=2
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def skip(why):
    """Ends this process as a test that is skipped."""
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def enter_namespace():
    """Goes on in a mount namespace of its own, in which n1 and n2 are names of this machine: what
    Slurm calls its nodes is where tasks connect to. Called first; runs this program again."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    os.environ["PATH"] = path
    for name in DAEMONS:
        if shutil.which(name) is None:
            skip(f"there is no {name} (Debian: apt-get install slurm-wlm)")
    if os.geteuid() != 0:
        skip("only root can start Slurm's daemons so")
    if os.environ.get("SLURM_TEST_IN_NAMESPACE") != "1":
        os.environ["SLURM_TEST_IN_NAMESPACE"] = "1"
        if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode != 0:
            skip("mount namespaces are not allowed here")
        os.execvp("unshare", ["unshare", "--mount", sys.executable, "-B", *sys.argv])


class RealSlurm:
    """with RealSlurm() as slurm: slurm.srun("--nodes=2", "hostname")"""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-slurm-"))

    def __enter__(self):
        sockets = [socket.socket() for _ in range(3)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in sockets]
        for one in sockets:
            one.close()
        for name in ("state", "spool-n1", "spool-n2"):
            (self.folder / name).mkdir()
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, ports=ports))
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost n1 n2\n")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        self.daemons = [
            subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
            for words in (["slurmctld", "-D"], ["slurmd", "-D", "-N", "n1"],
                          ["slurmd", "-D", "-N", "n2"])]
        deadline = time.monotonic() + 60
        while True:
            said = subprocess.run(["sinfo", "--noheader", "--format=%t %D"], text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
            if said.strip() == "idle 2":
                return self
            lost = "inval" in said or any(one.poll() is not None for one in self.daemons)
            if lost or time.monotonic() > deadline:
                logs = "".join(log.read_text() for log in sorted(self.folder.glob("*.log")))
                self.__exit__()
                raise RuntimeError(f"Slurm's nodes did not come up: {said}\n{logs}")
            time.sleep(0.1)

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        subprocess.run(["umount", "/etc/hosts"], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words, timeout=200, **environment):
        """A client of Slurm's; its status and everything that it prints."""
        done = subprocess.run(words, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, **environment})
        return done.returncode, done.stdout

    def srun(self, *words, **environment):
        """A step; as run."""
        return self.run("srun", *words, **environment)
