"""Files that random pipelines read, the same for both libraries."""

import os

import tensorflow as tf

LINES = [b"1,a,0.5\n2,b,1.5\n\n3,,-2\n", b"", b"7,x y,0\r\n8,z,1e3\n9,last,4", b"one\n\n\ntwo\n",
         b"4,d,2.5\n"]


class Files:
    def __init__(self, folder):
        self.folder, self.made = folder, 0
        self.lines, self.records = [], {None: [], "GZIP": [], "ZLIB": []}
        for i, text in enumerate(LINES):
            self.lines.append(os.path.join(folder, f"lines-{i}.csv"))
            with open(self.lines[-1], "wb") as file:
                file.write(text)
        self.long = [path for path in self.lines if os.path.getsize(path) > 6]
        for compression, paths in self.records.items():
            for i, count in enumerate((3, 0, 5, 2)):
                paths.append(os.path.join(folder, f"records-{compression}-{i}"))
                with tf.io.TFRecordWriter(paths[-1], compression or "") as writer:
                    for j in range(count):
                        writer.write(f"{10 * i + j}".encode() * (j % 3))
        self.pattern = os.path.join(folder, "lines-*.csv")

    def some_of(self, random, paths):
        """A few of the paths, seldom with one that is not there, or one alone as a string."""
        if random.random() < 0.2:
            return random.choice(paths)
        some = [random.choice(paths) for _ in range(random.randint(1, 4))]
        if random.random() < 0.05:
            some.insert(random.randrange(len(some) + 1), os.path.join(self.folder, "not there"))
        return some

    def fresh(self):
        """A path at which nothing is."""
        self.made += 1
        return os.path.join(self.folder, f"fresh-{self.made}")
