"""HDF5 files that lead elsewhere or lie, in processes that end as those of a user: with a message, and with no signal.

What HDF5 does at the end of a process depends on what an error still holds then, which a test within one process does not see.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.test_readers import READERS

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = """
import gc, json, os, sys, traceback
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import h5py, numpy as np
from qsim.core.errors import FileError, InvalidInput
from tests.core.test_readers import READERS

def virtual(file, name, item):
    layout = h5py.VirtualLayout(item.shape, item.dtype)
    layout[...] = h5py.VirtualSource("other.h5", name, item.shape)
    file.create_virtual_dataset(name, layout)

def external_link(file, name, item):
    file[name] = h5py.ExternalLink("other.h5", name)

def pipe(file, name, item):
    file[name] = h5py.ExternalLink("pipe", name)

def link_through_a_pipe(file, name, item):
    file["beside"] = h5py.ExternalLink("pipe", "/")
    file[name] = h5py.SoftLink("/beside/" + name)

def group_elsewhere(file, name, item):
    top = name.partition("/")[0]
    if top in file:
        del file[top]
    file[top] = h5py.ExternalLink("pipe", "/")

def raw(file, name, item):
    file.create_dataset(name, item.shape, item.dtype, external=[("/etc/passwd", 0, 10**6)])

def no_filter(file, name, item):
    shape = item.shape or (1,)
    made = file.create_dataset(name, shape, item.dtype, chunks=shape, compression=32000, allow_unknown_filter=True)
    made.id.write_direct_chunk((0,) * len(shape), bytes(item.dtype.itemsize), 0)

def never_written(file, name, item):
    file.create_dataset(name, (10**6,) * 3, item.dtype, chunks=(100,) * 3)

def other_type(file, name, item):
    file[name] = np.zeros(item.shape, [("a", "i4"), ("b", "S3")])

def lists(file, name, item):
    file.create_dataset(name, item.shape or (1,), h5py.vlen_dtype(np.float64))

def nothing(file, name, item):
    file[name] = h5py.Empty("f8")

def references(file, name, item):
    file.create_dataset(name, item.shape, h5py.ref_dtype)

def a_group(file, name, item):
    file.create_group(name)[name.rpartition("/")[2]] = h5py.SoftLink("/")

KINDS = [virtual, external_link, pipe, link_through_a_pipe, group_elsewhere, raw, no_filter, never_written, other_type, lists,
         nothing, references, a_group]

def hostile(name, number):
    file, write, read = READERS[name]
    path = Path(file)
    write(path)
    path.rename("other.h5")
    os.mkfifo("pipe")
    with h5py.File("other.h5") as source, h5py.File(path, "w") as target:
        names = []
        source.visititems(lambda n, i: names.append(n) if isinstance(i, h5py.Dataset) and i.dtype.kind in "fic" else None)
        rng = np.random.default_rng(number)
        chosen = names[rng.integers(len(names))]
        for key in source.attrs:
            target.attrs[key] = source.attrs[key]
        for key in source:
            source.copy(key, target)
        item = source[chosen]
        del target[chosen]
        KINDS[number % len(KINDS)](target, chosen, item)
    read(path)

def reader(name, number, place):
    os.mkdir(place)
    os.chdir(place)
    code = 0
    try:
        hostile(name, number)
    except (FileError, InvalidInput) as error:
        # Kept beyond the end of the interpreter, as the command line keeps it, which searches for no garbage then.
        error.kept = error
        gc.freeze()
        assert "\\n" not in str(error)
        code = 6
    except BaseException:
        traceback.print_exc()
        code = 1
    raise SystemExit(code)

codes = []
for number in range(int(sys.argv[3])):
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        reader(sys.argv[2], number, str(number))
    import time
    until = time.monotonic() + 60
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < until:
        time.sleep(0.005)
    if done[0] == 0:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        code = "hangs"
    else:
        code = os.waitstatus_to_exitcode(done[1])
    codes.append([KINDS[number % len(KINDS)].__name__, code])
print(json.dumps(codes))
"""
HDF5 = [name for name, (file, *_) in READERS.items() if file.endswith((".h5", ".chk"))]


@pytest.mark.skipif(os.name != "posix", reason="processes are forked")
@pytest.mark.parametrize("name", HDF5)
def test_every_reader_ends_with_a_message(name, tmp_path, pytestconfig):
    count = 260 if pytestconfig.getoption("exhaustive") else 13
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, ROOT, name, str(count)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout.splitlines()[-1])
    assert {code for _, code in codes} <= {0, 6}, (codes, done.stderr)
    assert sum(code == 6 for _, code in codes) >= len(codes) // 3
