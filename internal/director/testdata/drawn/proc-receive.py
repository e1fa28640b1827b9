#!/usr/bin/env python3
# A hook of git that refuses every ref, as GitHub does by its rules.
import sys


def read():
    n = int(sys.stdin.buffer.read(4), 16)
    return None if n == 0 else sys.stdin.buffer.read(n - 4)


def write(s):
    b = s.encode()
    sys.stdout.buffer.write(b"%04x" % (len(b) + 4) + b)


def flush():
    sys.stdout.buffer.write(b"0000")
    sys.stdout.buffer.flush()


while read() is not None:
    pass
write("version=1\0")
flush()
refs = []
while (line := read()) is not None:
    refs.append(line.decode().split()[2])
sys.stderr.write(TEXT)
sys.stderr.flush()
for ref in refs:
    write("ng " + ref + " " + REASON)
flush()
