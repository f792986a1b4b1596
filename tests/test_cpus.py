import os
import threading
from pathlib import Path

import pytest

from segue.cpus import interrupt_as_usual, usable_cpus, wait_for_a_free_one


@pytest.fixture(autouse=True)
def sixteen_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 16),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 16),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "6400000 100000\n"}, 16),
        (
            {
                "proc/self/cgroup": "0::/pod/app\n",
                "sys/fs/cgroup/pod/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/pod/app/cpu.max": "max 100000\n",
            },
            3,
        ),
        ({"proc/self/cgroup": "0::/host/x\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        (
            {
                "proc/self/cgroup": "5:memory:/m\n4:cpu,cpuacct:/docker/x\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "500000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            5,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            16,
        ),
        ({"proc/self/cgroup": "garbage\n", "sys/fs/cgroup/cpu.max": "x\n"}, 16),
    ],
)
def test_the_tightest_of_affinity_and_quotas(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    assert usable_cpus(written(tmp_path, files)) == expected


def test_affinity_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert usable_cpus(tmp_path) == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cpus(tmp_path) == 1


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="the system has no such policy")
def test_a_thread_alone_waits_for_a_free_processor_until_it_says_otherwise() -> None:
    policies = [os.sched_getscheduler(0)]

    def change() -> None:
        for call in (wait_for_a_free_one, interrupt_as_usual):
            call()
            policies.append(os.sched_getscheduler(0))

    changing = threading.Thread(target=change)
    changing.start()
    changing.join()
    assert [*policies, os.sched_getscheduler(0)] == [
        os.SCHED_OTHER,
        os.SCHED_BATCH,
        os.SCHED_OTHER,
        os.SCHED_OTHER,
    ]
