"""Proves that code compiled for one instruction set cannot be reached by the rest of the program by accident.

An inline function of a shared header, compiled with AVX-512, would be a weak symbol, and the linker might keep that copy
for everybody. So the objects of the kernels may define nothing weak, and nothing outside their own namespace.

usage: check_isa.py BUILD_DIRECTORY
"""

import subprocess
import sys
from pathlib import Path


def main() -> int:
    objects = sorted(Path(sys.argv[1]).glob("src/backends/cpu/kernels/CMakeFiles/*.dir/*/*.o"))
    wrong = []
    for path in objects:
        isa = path.parent.name
        own = f"3cpu{len(isa)}{isa}"  # as names are mangled
        listing = subprocess.run(
            ["nm", "--defined-only", path], capture_output=True, text=True, check=True
        ).stdout
        for line in listing.splitlines():
            kind, name = line.split()[-2:]
            shared = kind in "WVuvw" or kind.isupper()
            if (
                shared
                and (kind in "WVuvw" or own not in name)
                and "asan" not in name
                and "sanitizer" not in name
            ):
                wrong.append(f"{isa}/{path.name} defines {kind} {name}")
    print("\n".join(wrong) or f"{len(objects)} objects define only what is theirs")
    if len(objects) < 3:
        print("too few objects were found")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
