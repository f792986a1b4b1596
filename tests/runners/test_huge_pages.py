import os
import subprocess
import sys

import pytest

from segue.runners import huge_pages


def test_later_processes_inherit_it_and_the_users_setting_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(huge_pages.VARIABLE, "")
    monkeypatch.delenv(huge_pages.VARIABLE)
    assert huge_pages.prefer_huge_pages()
    show = f"import os; print(os.environ[{huge_pages.VARIABLE!r}])"
    seen = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == (
        "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:glibc.malloc.top_pad=67108864"
    )
    assert seen.stderr == ""
    monkeypatch.setenv(huge_pages.VARIABLE, "glibc.malloc.check=0")
    assert not huge_pages.prefer_huge_pages()
    assert os.environ[huge_pages.VARIABLE] == "glibc.malloc.check=0"
