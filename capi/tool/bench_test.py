#!/usr/bin/env python3
"""`tutti bench` and `tutti trace` as their users see them.

    bench_test.py TUTTI [TEST...]      TUTTI is the command under test

Nothing here measures time: what must happen is waited for, and the bounds only stop hangs.
"""

import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import unittest
import xml.etree.ElementTree

from run_testing import TUTTI, CommandTest, stat_of

HANG_S = 100
QUICK = ["--max", "4K", "--factor", "8", "--iterations", "20"]


def workers_of(pid):
    """The bench workers below a process: {pid: index}."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = stat_of(int(name))
            if stat and stat[0] not in "ZX":
                parents[int(name)] = stat[1]
    found = {}
    for candidate, ancestor in parents.items():
        while ancestor in parents and ancestor != pid:
            ancestor = parents[ancestor]
        if ancestor != pid:
            continue
        try:
            words = pathlib.Path(f"/proc/{candidate}/cmdline").read_bytes().split(b"\0")
            variables = pathlib.Path(f"/proc/{candidate}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        config = [v[len(b"TF_CONFIG="):] for v in variables if v.startswith(b"TF_CONFIG=")]
        if b"bench-worker" in words and config:
            found[candidate] = json.loads(config[0])["task"]["index"]
    return found


class BenchTest(CommandTest):
    hang_s = HANG_S

    def run_words(self, *words, status=0):
        result = subprocess.run([TUTTI, *words], env=self.environment, capture_output=True,
                                text=True, timeout=HANG_S, cwd=self.folder)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def measure(self, *words):
        result = self.run_words("bench", *words, *QUICK, "--json")
        self.assertEqual(result.stderr, "")
        report = json.loads(result.stdout)
        for row in report["rows"]:
            for timing in (row["out_of_place"], row["in_place"]):
                if timing is not None:
                    self.assertEqual(timing["wrong"], 0)
                    self.assertGreater(timing["time_us"], 0)
                    self.assertLessEqual(timing["p50_us"], timing["p99_us"])
        return report

    def start(self, *words):
        process = subprocess.Popen([TUTTI, *words], env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.addCleanup(self.end, process)
        return process

    def start_endless(self, workers):
        """A measurement in the middle of its calls, and its workers' pids by index."""
        process = self.start("bench", "--workers", str(workers), "--min", "1K", "--iterations",
                             "1000000", "--max", "1G")
        while not process.stdout.readline().startswith("# "):
            self.assertIsNone(process.poll())
        pids = {index: pid for pid, index in workers_of(process.pid).items()}
        self.assertEqual(sorted(pids), list(range(workers)))
        return process, pids


class MeasuringTest(BenchTest):
    def test_every_transport_gives_the_right_results(self):
        for transport in ("shared_memory", "tcp", "in_process"):
            with self.subTest(transport):
                report = self.measure("all_reduce", "--transport", transport, "--workers", "3")
                self.assertEqual((report["transport"], report["buffers"]), (transport, "private"))
                self.assertEqual([row["bytes"] for row in report["rows"]], [8, 64, 512, 4096])
                row = report["rows"][-1]["out_of_place"]
                self.assertAlmostEqual(row["busbw_gbps"], row["algbw_gbps"] * 4 / 3)
                self.assertAlmostEqual(row["algbw_gbps"], 4096 / row["time_us"] / 1e3)

    def test_every_collective_gives_the_right_results(self):
        names = self.run_words("bench", "nothing", status=2).stderr
        names = re.search("there are (.*)", names).group(1).split(", ")
        self.assertIn("all_reduce", names)
        self.assertIn("barrier", names)
        for name in names:
            with self.subTest(name):
                report = self.measure(name, "--workers", "3", "--transport", "in_process")
                self.assertEqual(report["collective"], name)
                self.assertEqual(report["rows"][-1]["bytes"] > 0, name != "barrier")

    def test_dtypes_and_reductions_give_the_right_results(self):
        for dtype, op in (("int8", "sum"), ("bfloat16", "mean"), ("uint16", "max"),
                          ("float64", "min"), ("float16", "prod"), ("int64", "mean")):
            with self.subTest(dtype=dtype, op=op):
                report = self.measure("--dtype", dtype, "--op", op, "--transport", "in_process",
                                      "--workers", "3")
                self.assertEqual((report["dtype"], report["op"]), (dtype, op))

    def test_calls_in_flight_and_of_many_tensors_give_the_right_results(self):
        for words in (["all_reduce", "--in-flight", "5"], ["all_gather", "--in-flight", "2"],
                      ["send_receive", "--in-flight", "3"], ["all_reduce", "--tensors", "7"],
                      ["all_reduce", "--tensors", "3", "--in-flight", "4"]):
            with self.subTest(words):
                report = self.measure(*words, "--transport", "in_process", "--workers", "3")
                for key in ("in_flight", "tensors"):
                    flag = "--" + key.replace("_", "-")
                    asked = int(words[words.index(flag) + 1]) if flag in words else None
                    self.assertEqual(report[key], asked or (1 if key == "tensors" else 0))
        out = self.run_words("bench", "--tensors", "3", "--in-flight", "4", *QUICK).stdout
        self.assertIn("# 4 calls under way at once", out)
        self.assertIn("# 3 tensors in each call", out)

    def test_the_table_has_the_columns_of_nccl_tests(self):
        out = self.run_words("bench", "--transport", "in_process", *QUICK).stdout
        for column in ("size", "count", "type", "redop", "time", "p50", "p99", "algbw", "busbw",
                       "#wrong", "out-of-place", "in-place"):
            self.assertIn(column, out)
        self.assertIn("# wrong elements: 0\n", out)
        rows = [line for line in out.splitlines() if not line.startswith("#")]
        self.assertEqual([row.split()[:4] for row in rows],
                         [[str(8**i), str(8**i // 4), "float32", "sum"] for i in range(1, 5)])

    def test_how_far_it_is_goes_to_stderr_when_asked(self):
        words = ("bench", "--transport", "in_process", *QUICK, "--json")
        result = self.run_words(*words, "--progress", "lines")
        rows = len(json.loads(result.stdout)["rows"])
        self.assertIn(f"tutti bench: all_reduce: 0 of {rows} sizes (0 %), ", result.stderr)
        self.assertIn(f"tutti bench: all_reduce: {rows} of {rows} sizes (100 %), ", result.stderr)
        self.assertEqual(self.run_words(*words, "--progress", "off").stderr, "")
        self.assertIn("--progress", self.run_words(*words, "--progress", "dots", status=2).stderr)

    def test_a_picture_shows_peers_beside_it(self):
        first = self.run_words("bench", "--transport", "in_process", *QUICK, "--json").stdout
        (self.folder / "first.json").write_text(first)
        out = self.run_words("bench", "--transport", "in_process", *QUICK, "--svg", "bw.svg",
                             "--peer", "the first time=first.json").stdout
        self.assertTrue(out.endswith("# drawn in bw.svg\n"), out)
        root = xml.etree.ElementTree.parse(self.folder / "bw.svg").getroot()
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for text in ("all_reduce between 2 ranks", "Tutti, in_process", "the first time",
                     "size (bytes, log scale)", "bus bandwidth (GB/s, log scale)"):
            self.assertIn(text, texts)
        self.assertEqual(sorted(os.listdir(self.folder)), ["bw.svg", "first.json"])


    def test_shared_buffers_give_the_right_results(self):
        for name in ("all_reduce", "broadcast", "reduce_scatter", "all_gather", "all_to_all"):
            with self.subTest(name):
                report = self.measure(name, "--buffers", "shared")
                self.assertEqual((report["buffers"], report["transport"]),
                                 ("shared", "shared_memory"))
        self.assertEqual(self.measure("--tensors", "3", "--in-flight", "2", "--buffers",
                                      "shared")["buffers"], "shared")
        out = self.run_words("bench", "--buffers", "shared", *QUICK, "--svg", "bw.svg").stdout
        self.assertIn("# tensors lie in memory that the ranks map (create_tensor)\n", out)
        self.assertIn(">Tutti, shared_memory, shared buffers<",
                      (self.folder / "bw.svg").read_text())

    def test_shared_buffers_are_refused_where_no_memory_is_mapped(self):
        # Room for everything but a window, which is as long as the machine has memory.
        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        if subprocess.run([TUTTI, "--version"], preexec_fn=limit, capture_output=True).returncode:
            self.skipTest("the command itself takes more address space")
        result = subprocess.run([TUTTI, "bench", "--buffers", "shared", *QUICK], preexec_fn=limit,
                                env=self.environment, capture_output=True, text=True,
                                timeout=HANG_S)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertIn("tutti bench: --buffers shared: these 2 ranks, over shared_memory, map no "
                      "memory of each other's for tensors", result.stderr)


    def test_workers_of_a_cluster_that_there_is_measure_together(self):
        out = self.run_words("run", "--workers", "3", "--no-prefix", "--", TUTTI, "bench", "--join",
                             "broadcast", *QUICK, "--json").stdout
        report = json.loads(out)
        self.assertEqual((report["workers"], report["hosts"], report["collective"]),
                         (3, 1, "broadcast"))
        self.assertEqual(sum(row["in_place"]["wrong"] for row in report["rows"]), 0)


class RefusingTest(BenchTest):
    def refused(self, *words):
        result = self.run_words("bench", *words, status=2)
        self.assertEqual(result.stdout, "")
        self.assertIn("tutti bench", result.stderr)
        self.assertEqual(os.listdir(self.folder), [])
        return result.stderr

    def test_wrong_words_are_explained(self):
        self.assertIn("there is no collective sum", self.refused("sum"))
        self.assertIn('"8X" is no size', self.refused("--min", "8X"))
        self.assertIn("--min 64 is more than --max 8", self.refused("--min", "64", "--max", "8"))
        self.assertIn("--dtype bytes cannot be measured", self.refused("--dtype", "bytes"))
        self.assertIn("--op avg is none of", self.refused("--op", "avg"))
        self.assertIn("--workers", self.refused("--workers", "0"))
        self.assertIn("--transport", self.refused("--transport", "pigeon"))
        self.assertIn("say where it goes with --svg", self.refused("--peer", "a=b"))
        self.assertIn("--peer a: expected NAME=FILE", self.refused("--svg", "x", "--peer", "a"))
        self.assertIn("cannot read b", self.refused("--svg", "x", "--peer", "a=b"))
        self.assertIn("cannot write no/x.svg", self.refused("--svg", "no/x.svg"))
        self.assertIn("two sizes", self.refused("barrier", "--svg", "x.svg"))
        self.assertIn("one collective at a time", self.refused("reduce", "scatter"))
        self.assertIn("--in-flight: all_to_all_uneven has no future",
                      self.refused("all_to_all_uneven", "--in-flight", "2"))
        self.assertIn("--tensors: broadcast takes one", self.refused("broadcast", "--tensors", "2"))
        shared = ["--buffers", "shared"]
        self.assertIn("--buffers: barrier has no tensors", self.refused("barrier", *shared))
        self.assertIn("over tcp there is no memory", self.refused(*shared, "--transport", "tcp"))
        self.assertIn("ranks of one process", self.refused(*shared, "--transport", "in_process"))
        self.assertIn("--buffers", self.refused("--buffers", "mapped"))
        self.assertIn("leave out --workers", self.refused("--join", "--workers", "2"))
        self.assertIn("--join is for workers",
                      self.refused("--join", "--transport", "in_process"))

    def test_wrong_words_beside_tune_are_explained(self):
        tune = ["--tune", "x.table"]
        self.assertIn("there is no collective sum", self.refused(*tune, "sum"))
        self.assertIn("nothing to choose for barrier", self.refused(*tune, "barrier"))
        self.assertIn("reduce is there twice", self.refused(*tune, "reduce", "reduce"))
        self.assertIn("two workers at least", self.refused(*tune, "--workers", "1"))
        self.assertIn("--tune goes with", self.refused(*tune, "--json"))
        self.assertIn("--tune goes with", self.refused(*tune, "--iterations", "5"))
        self.assertIn("--tune goes with", self.refused(*tune, "--buffers", "shared"))
        self.assertIn("cannot write no/x", self.refused("--tune", "no/x"))

    def test_peers_of_another_measurement_are_refused(self):
        peer = self.folder / "peer.json"
        def said(text):
            peer.write_text(text)
            return self.run_words("bench", "--svg", "x.svg", "--peer", "a=peer.json",
                                  status=2).stderr
        self.assertIn("not what tutti bench --json writes", said("{}"))
        self.assertIn("not what tutti bench --json writes", said("none"))
        report = {"system": "x", "collective": "all_reduce", "workers": 3, "rows": [
            {"bytes": 8, "out_of_place": {"time_us": 1, "algbw_gbps": 1, "busbw_gbps": 1}}]}
        self.assertIn("between 3 ranks; expected all_reduce between 2", said(json.dumps(report)))


class TuningTest(BenchTest):
    WORDS = ["all_reduce", "--transport", "in_process", "--seconds", "0.3", "--max", "64K",
             "--factor", "8"]

    def rows_of_doctor(self, table):
        self.environment["TUTTI_COLLECTIVE_TABLE"] = str(table)
        report = json.loads(self.run_words("doctor", "--json").stdout)
        return [row.split() for row in report["collectives"]]

    def test_the_file_is_a_table_that_doctor_accepts(self):
        built_in = self.rows_of_doctor("")
        out = self.run_words("bench", "--tune", "here.table", *self.WORDS).stdout
        self.assertRegex(out, r"# all_reduce over in_process, 2 ranks: 3 choices, "
                              r"\d of 3 payloads, up to ")
        self.assertIn("#   before: up to 160KiB flat_fold\n", out)
        self.assertRegex(out, "#   after:  ")
        lines = (self.folder / "here.table").read_text().splitlines()
        self.assertRegex(lines[0],
                         r"^# tutti bench --tune, \d{4}-\d\d-\d\d: .+, \d+ usable cores?; "
                         r"all_reduce over in_process between 2 ranks$")
        rows = [line.split() for line in lines if not line.startswith("#")]
        self.assertEqual(rows, self.rows_of_doctor("here.table")[:len(rows)])
        self.assertEqual(self.rows_of_doctor("here.table")[len(rows):], built_in)

    def test_own_rows_are_what_it_begins_with_and_stay(self):
        # A border far from where it belongs, and a row for something else.
        own = ["reduce in_process 7 1KiB flat_fold", "all_reduce in_process 2 64 flat_fold",
               "all_reduce in_process 2 any slice_and_share"]
        self.environment["TUTTI_COLLECTIVE_TABLE"] = "rows:" + ";".join(own)
        out = self.run_words("bench", "--tune", "-", *self.WORDS).stdout
        self.assertIn("#   before: up to 64 flat_fold\n", out)
        (self.folder / "out.table").write_text(out)
        rows = [" ".join(row) for row in self.rows_of_doctor("out.table")]
        written = [" ".join(line.split()) for line in out.splitlines() if not line.startswith("#")]
        self.assertEqual(rows[:len(written)], written)
        # All of them are the last ones of what was written.
        self.assertEqual(written[-len(own):], own)

    def test_a_collective_with_one_algorithm_is_left_alone(self):
        out = self.run_words("bench", "--tune", "-", "gather", "--transport", "in_process").stdout
        self.assertIn("# gather: nothing to choose, there is direct only\n", out)
        self.assertIn("# what is built in is the best here\n", out)
        self.assertIn("# rows of shared_window and hosts stay: ranks of one process", out)

    def test_ranks_that_map_memory_tune_the_rows_of_both_localities(self):
        words = ["--tune", "-", "scatter", "gather", "--seconds", "0.2", "--max", "64K"]
        own = "scatter shared_window 2 any staged"
        self.environment["TUTTI_COLLECTIVE_TABLE"] = "rows:" + own
        out = self.run_words("bench", *words).stdout
        self.assertRegex(out, r"# scatter over shared_memory, 2 ranks: \d+ choices, ")
        self.assertIn("# gather: nothing to choose, there is segments only\n", out)
        self.assertRegex(out, r"# scatter over shared_window, 2 ranks: 2 choices, .*\n"
                              r"#   before: up to any staged\n#   after:  ")
        self.assertIn("# rows of hosts stay: all ranks are on one host", out)
        self.assertIn("scatter, gather over shared_memory and shared_window between 2 ranks\n", out)
        written = [line.split() for line in out.splitlines() if not line.startswith("#")]
        self.assertEqual(written[-1], own.split())
        self.assertLessEqual({row[1] for row in written}, {"shared_memory", "shared_window"})
        out = self.run_words("bench", *words, "--transport", "tcp").stdout
        self.assertIn("# rows of shared_window stay: these ranks map no memory", out)
        self.assertIn("over tcp between 2 ranks\n", out)


    def test_ranks_with_tables_of_their_own_are_refused(self):
        # One more choice, or another border, at rank 1 only.
        for own in ("any segments 20KiB", "4KiB segments 64KiB"):
            script = ('case "$TF_CONFIG" in *\'"index": 1\'*) '
                      f'export TUTTI_COLLECTIVE_TABLE="rows:scatter shared_memory 2 {own}";; esac; '
                      f'exec "{TUTTI}" bench --join --tune join.table scatter --seconds 0.2 '
                      '--max 64K')
            result = self.run_words("run", "--workers", "2", "--", "sh", "-c", script, status=1)
            self.assertIn("bench: --tune: the ranks would not measure the same", result.stderr)
            self.assertFalse((self.folder / "join.table").exists())


class EndingTest(BenchTest):
    def test_a_killed_worker_ends_all_and_is_named(self):
        process, pids = self.start_endless(3)
        os.kill(pids[1], signal.SIGKILL)
        _, err = process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, err)
        self.assertRegex(err, rf"tutti bench: worker 1 \(pid {pids[1]}\) was killed by SIGKILL")
        self.assertRegex(err, r"tutti bench: rank 0: UNAVAILABLE: .*worker 1")
        self.until_gone(pids.values())

    def test_ctrl_c_ends_all(self):
        process, pids = self.start_endless(2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, err)
        self.until_gone(pids.values())

    def test_killing_the_command_itself_leaves_nothing(self):
        process, pids = self.start_endless(2)
        process.kill()
        process.wait()
        self.until_gone(pids.values())


class TraceTest(BenchTest):
    def setUp(self):
        super().setUp()
        self.flights = self.folder / "flights"
        self.environment["TUTTI_FLIGHT_RECORDER_DIR"] = str(self.flights)

    def records(self):
        """The directory of the one job that has failed."""
        jobs = list(self.flights.iterdir())
        self.assertEqual(len(jobs), 1, jobs)
        return jobs[0]

    def trace(self, *paths):
        result = self.run_words("trace", *map(str, paths))
        self.assertEqual(result.stderr, "")
        return result.stdout, json.loads((self.folder / "trace.json").read_text())["traceEvents"]

    def fail_differing(self):
        """Two workers that call different things; the records' directory and what they said."""
        script = ('case "$TF_CONFIG" in *\'"index": 1\'*) set broadcast;; *) set all_reduce;; esac'
                  f'; exec "{TUTTI}" bench-worker "$@" --iterations 5')
        result = self.run_words("run", "--workers", "2", "--", "sh", "-c", script, status=1)
        return self.records(), result.stderr

    def test_different_calls_are_named_with_both_sides(self):
        records, err = self.fail_differing()
        for worker in (0, 1):
            path = records / f"flight-{worker}.json"
            self.assertIn(f"; the flight record is in {path}", err)
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(records.stat().st_mode & 0o777, 0o700)
        self.assertEqual(self.flights.stat().st_mode & 0o777, 0o700)
        out, events = self.trace(self.flights)  # looks into the folder of the one job
        self.assertRegex(out, r'first divergence: communicator "bench", epoch 1: the ranks made '
                              r'different calls as #2: rank 0 all_reduce \(float32, 8 bytes, SUM\);'
                              r' rank 1 broadcast \(float32, 8 bytes, root 0\)\n')
        begins = {(event["pid"], event["name"]) for event in events if event["ph"] == "B"}
        self.assertEqual(begins, {(0, "barrier #1"), (1, "barrier #1"), (0, "all_reduce #2"),
                                  (1, "broadcast #2")})
        names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        self.assertRegex(names[1], r"worker 1 \(pid \d+ on .+\)")
        # Both ranks had come to the barrier before either left it: the clocks agree.
        barrier = [event for event in events if event["name"] == "barrier #1"]
        last_begin = max(event["ts"] for event in barrier if event["ph"] == "B")
        self.assertLessEqual(last_begin, min(e["ts"] for e in barrier if e["ph"] == "E"))

    def test_a_killed_worker_is_the_one_without_a_record(self):
        process, pids = self.start_endless(3)
        os.kill(pids[2], signal.SIGKILL)
        process.communicate(timeout=HANG_S)
        out, _ = self.trace(*sorted(self.records().iterdir()))
        # The other survivor may have been in the call already, or come to it later.
        self.assertRegex(out, r"first divergence: .*failed first on rank ([01]), with UNAVAILABLE; "
                              r"(rank (?!\1)[01] came [\d.e-]+ m?s after that; )?"
                              r"rank 2 left no record")

    def test_damaged_and_foreign_files_are_refused(self):
        records, _ = self.fail_differing()
        def said(*paths):
            return self.run_words("trace", *map(str, paths), status=1).stderr
        whole = (records / "flight-0.json").read_text()
        broken = self.folder / "broken.json"
        broken.write_text(whole[:len(whole) // 2])
        self.assertIn("cannot use " + str(broken) + ": it is damaged", said(broken))
        broken.write_text('{"traceEvents": []}')
        self.assertIn("it is no flight record of Tutti", said(broken))
        broken.write_text(re.sub('"job":"[^"]*"', '"job":"another"', whole))
        self.assertIn("are of different jobs", said(records, broken))
        broken.write_text(whole)
        self.assertIn("are both of worker 0", said(records, broken))
        self.assertIn("No such file or directory", said(self.folder / "none.json"))
        (self.folder / "empty").mkdir()
        self.assertIn("there is no flight-*.json in", said(self.folder / "empty"))
        (self.flights / "job-another").mkdir()
        several = said(self.flights)
        self.assertIn("there are records of 2 jobs in", several)
        self.assertIn(str(records), several)
        self.assertIn("there is no flight-*.json in", said(self.flights / "job-another"))
        self.assertIn("cannot write no/trace.json", said(records, "-o", "no/trace.json"))
        self.assertFalse((self.folder / "trace.json").exists())
        self.run_words("trace", status=2)

    def test_what_was_found_is_said_although_the_timeline_cannot_be_written(self):
        records, _ = self.fail_differing()
        result = self.run_words("trace", str(records), "-o", "no/trace.json", status=1)
        self.assertRegex(result.stdout, r'\Afirst divergence: communicator "bench".*as #2')
        self.assertEqual(result.stderr, "tutti trace: cannot write no/trace.json: No such file or "
                                        "directory\n")

    def test_a_link_and_a_fifo_get_the_timeline_and_stay_what_they_are(self):
        records, _ = self.fail_differing()
        (self.folder / "there").mkdir()
        link, fifo = self.folder / "link.json", self.folder / "fifo.json"
        link.symlink_to("there/trace.json")
        self.run_words("trace", str(records), "-o", "link.json")
        self.assertTrue(link.is_symlink())
        timeline = (self.folder / "there" / "trace.json").read_text()
        self.assertIn("traceEvents", json.loads(timeline))
        os.mkfifo(fifo)
        reader = subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, reader)
        self.run_words("trace", str(records), "-o", "fifo.json")
        self.assertTrue(fifo.is_fifo())
        self.assertEqual(reader.communicate(timeout=HANG_S)[0], timeline)


if __name__ == "__main__":
    unittest.main()
