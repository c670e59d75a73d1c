# SPDX-License-Identifier: BSD-3-Clause
"""The table of faults: reads table/*.txt, and puts a fault into a text. Knows nothing of builds and tests.

An entry of the table:

    == name.of.the.fault
    file: src/select/order.c
    why: what a user would see of it; further lines are indented
    tests: unit.order unit.(plan|select)      those that should notice it, regular expressions, the likeliest first
    equivalent: why no test can notice it     instead of tests, where that is proven
    place: 2 of 3                             where the text stands more often than once
    -text to find, exactly, over one or several lines
    +text to put there

Several finds and puts of one entry, and of several files, follow each other.
"""
import pathlib
import re

FIELDS = ("file", "why", "tests", "equivalent", "place")


class TableError(Exception):
    pass


class Hunk:
    def __init__(self, file, place):
        self.file, self.place, self.find, self.put = file, place, [], []

    def apply(self, text):
        """The text with the fault in it. TableError: the place is not there, or not the only one."""
        find, put = "\n".join(self.find), "\n".join(self.put)
        wanted, of = self.place
        found = text.count(find)
        if found != of:
            raise TableError(f"{self.file}: found {found} times instead of {of}: {self.find[0].strip()}")
        at = -1
        for _ in range(wanted):
            at = text.index(find, at + 1)
        return text[:at] + put + text[at + len(find):]


class Fault:
    def __init__(self, name, where):
        self.name, self.where = name, where
        self.fields = {}
        self.hunks = []

    @property
    def why(self):
        return self.fields.get("why", "")

    @property
    def equivalent(self):
        return self.fields.get("equivalent", "")

    @property
    def tests(self):
        return self.fields.get("tests", "").split()

    @property
    def files(self):
        return sorted({hunk.file for hunk in self.hunks})

    def texts(self, root):
        """{file: its text with the fault in it}, from the sources below `root`."""
        texts = {}
        for hunk in self.hunks:
            if hunk.file not in texts:
                path = pathlib.Path(root, hunk.file)
                if not path.is_file():
                    raise TableError(f"{hunk.file}: there is no such file")
                texts[hunk.file] = path.read_text()
            texts[hunk.file] = hunk.apply(texts[hunk.file])
        return texts


class Reader:
    """One file of the table."""

    def __init__(self, path):
        self.path, self.faults, self.field = path, [], None
        self.place = (1, 1)

    def fail(self, number, what):
        raise TableError(f"{self.path.name}:{number}: {what}")

    def take_field(self, number, name, value):
        fault = self.faults[-1]
        if name == "place":
            match = re.fullmatch(r"(\d+) of (\d+)", value) or self.fail(number, "place: N of M")
            self.place = (int(match[1]), int(match[2]))
            return
        if name in fault.fields and name != "file":
            self.fail(number, f"{name} twice")
        fault.fields[name] = value
        self.field = name

    def take_text(self, number, line):
        fault = self.faults[-1]
        file = fault.fields.get("file") or self.fail(number, "no file so far")
        if line[0] == "-":
            if not fault.hunks or fault.hunks[-1].put or fault.hunks[-1].file != file or self.place != (1, 1):
                fault.hunks.append(Hunk(file, self.place))
                self.place = (1, 1)
            fault.hunks[-1].find.append(line[1:])
        elif fault.hunks:
            fault.hunks[-1].put.append(line[1:])
        else:
            self.fail(number, "nothing to find so far")

    def take(self, number, line):
        match = re.fullmatch(r"(\w+): *(.*)", line)
        if line.startswith("== "):
            self.faults.append(Fault(line[3:].strip(), f"{self.path.name}:{number}"))
            self.field = None
        elif not line.strip() or line.startswith("#"):
            self.field = None
        elif not self.faults:
            self.fail(number, "no entry begins before this line")
        elif match and match[1] in FIELDS:
            self.take_field(number, match[1], match[2])
        elif line[0] in "-+":
            self.take_text(number, line)
            self.field = None
        elif line[0] == " " and self.field:
            self.faults[-1].fields[self.field] += " " + line.strip()
        else:
            self.fail(number, f"not understood: {line}")


def check_entry(fault):
    if not re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)+", fault.name):
        raise TableError(f"{fault.where}: {fault.name}: a name is words joined by dots and underscores")
    if not fault.hunks or not fault.why:
        raise TableError(f"{fault.where}: {fault.name}: it takes why, and a text to find")
    if bool(fault.tests) == bool(fault.equivalent):
        raise TableError(f"{fault.where}: {fault.name}: it takes either tests or equivalent")


def read_table(folder):
    """All faults, in the order of the files. TableError: what is wrong, and where."""
    faults = []
    for path in sorted(pathlib.Path(folder).glob("*.txt")):
        reader = Reader(path)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            reader.take(number, line)
        faults += reader.faults
    names = set()
    for fault in faults:
        check_entry(fault)
        if fault.name in names:
            raise TableError(f"{fault.where}: {fault.name}: a second fault of this name")
        names.add(fault.name)
    return faults
