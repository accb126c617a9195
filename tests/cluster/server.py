"""A server process under test: start, ready line, resources, end. Knows nothing of HBase's protocol."""
import json
import os
import select
import signal
import subprocess
import time

START_SECONDS = 60


class Refused(Exception):
    """The process ended without getting ready."""

    def __init__(self, code, stdout, stderr):
        super().__init__("exit code %s: %s" % (code, (stderr or stdout).strip()[-400:]))
        self.code, self.stdout, self.stderr = code, stdout, stderr


class Server:
    def __init__(self, binary, data, log, *options, seconds=START_SECONDS):
        """Starts and waits for the ready line."""
        ports = ["--%s-port=0" % p for p in ("zookeeper", "master", "region-server", "admin")]
        command = [binary, "start", "--data", data, "--json", *ports, *options]
        self.log = log
        began = time.monotonic()
        with open(log, "ab") as errors:
            at = errors.tell()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        printed = b""
        while True:
            left = began + seconds - time.monotonic()
            if left <= 0:
                self.kill()
                raise Refused("none after %d s" % seconds, printed.decode(), self.logged(at))
            if not select.select([self.process.stdout], [], [], min(left, 0.5))[0]:
                continue
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                raise Refused(self.process.wait(10), printed.decode(), self.logged(at))
            printed += part
            for line in printed.decode().splitlines():
                if '"ready"' in line and line.endswith("}"):
                    self.ready = json.loads(line)
                    self.seconds = time.monotonic() - began
                    self.pid = self.ready["pid"]
                    return

    def logged(self, at=0):
        with open(self.log, errors="replace") as f:
            f.seek(at)
            return f.read()

    def rss_mib(self):
        with open("/proc/%d/status" % self.pid) as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024

    def open_files(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def terminate(self, seconds):
        """SIGTERM; the exit code and how long it took. None if it has not ended in that time."""
        began = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        try:
            return self.process.wait(seconds), time.monotonic() - began
        except subprocess.TimeoutExpired:
            return None, seconds

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
