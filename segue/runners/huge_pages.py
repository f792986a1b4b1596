"""Weights in huge pages: reading them all at every step, a processor spends a sixth of the time finding pages.

glibc's allocator asks for huge pages only if told at a process's start, and gets them only for memory it hands out in
one piece: so everything up to 32 MiB (its limit) comes from the heap, which grows in steps of 64 MiB.
"""

import os

VARIABLE = "GLIBC_TUNABLES"
TUNABLES = {"hugetlb": 1, "mmap_threshold": 32 << 20, "top_pad": 64 << 20}


def prefer_huge_pages() -> bool:
    """For processes started from here on; what the user has set stays. Whether this one must have been without."""
    if VARIABLE in os.environ:
        return False
    os.environ[VARIABLE] = ":".join(
        f"glibc.malloc.{key}={value}" for key, value in TUNABLES.items()
    )
    return True
