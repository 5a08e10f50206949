"""What there is to measure: GPUs as their driver lists them, a processor within its container, and neither torch."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from planner.cli import VERBS, main
from planner.errors import InvalidInput, PlannerError
from planner.measure import probe as probing
from planner.measure import system
from planner.measure.job import ROOT
from planner.measure.nvml import gpu_state, nvidia
from planner.measure.probe import catalogue_item, chosen_target, probe, probe_json
from planner.measure_report import probe_text
from planner.ui.locale import LANGUAGES
from tests.measure.fake_nvml import LOST, MIB, NVMLError, gpu, h200, library

T4 = ("Tesla T4", 15_360, (7, 5))


def install(monkeypatch: pytest.MonkeyPatch, gpus: list[dict[str, Any]], **more: Any) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library(gpus, **more))


def test_an_h200_says_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [h200()])
    found = probe()
    card = found.nvidia.gpus[0]
    assert (found.nvidia.driver, found.nvidia.cuda) == ("575.57.08", "12.9")
    assert (card.compute_capability, card.ecc, card.mig, card.nvlinks) == ("9.0", True, False, 18)
    assert (card.pcie_generation, card.pcie_lanes) == (5, 16)
    assert (card.state.sm_clock_mhz, card.sm_clock_max_mhz) == (1830.0, 1980.0)
    assert (card.state.power_w, card.power_limit_w) == (691.0, 700.0)
    assert card.state.throttle_reasons == ("power_cap",)
    assert [one.memory_used_bytes for one in card.state.processes] == [500.0 * MIB]
    first = found.targets[0]
    assert (first.device, first.accelerator, first.is_cpu) == ("cuda:0", "h200-sxm-141gb", False)
    assert found.targets[-1].device == "cpu"


def test_a_t4_that_says_little_is_known_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [gpu(*T4)])
    found = probe()
    card = found.nvidia.gpus[0]
    assert found.targets[0].accelerator == "t4"
    assert (card.ecc, card.mig, card.nvlinks, card.power_limit_w) == (None, None, None, None)
    assert (card.state.power_w, card.state.throttle_reasons, card.state.processes) == (None, (), ())


def test_the_name_alone_is_not_enough() -> None:
    assert catalogue_item("Tesla T4", 15_360.0 * MIB) is not None
    assert catalogue_item("Tesla T4", 24_000.0 * MIB) is None
    assert catalogue_item("Tesla T4", None) is None
    assert catalogue_item("NVIDIA Nothing 9000", 15_360.0 * MIB) is None
    for name, mib, id_ in (
        ("NVIDIA A100-SXM4-80GB", 81_920, "a100-sxm4-80gb"),
        ("NVIDIA H100 80GB HBM3", 81_559, "h100-sxm-80gb"),
        ("NVIDIA GeForce RTX 4090", 24_564, "rtx-4090"),
        ("NVIDIA L4", 23_034, "l4"),
    ):
        found = catalogue_item(name, mib * MIB)
        assert found is not None, name
        assert found.id == id_


def test_a_divided_gpu_is_its_instances_and_no_catalogue_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, [gpu("NVIDIA H200", 143_771, (9, 0), mig=(18_000, 36_000)), gpu(*T4)])
    found = probe()
    assert [(x.device, x.accelerator) for x in found.targets] == [
        ("cuda:0", None),
        ("cuda:1", None),
        ("cuda:2", "t4"),
        ("cpu", None),
    ]
    assert found.targets[1].memory_total_bytes == 36_000 * MIB


@pytest.mark.parametrize(
    ("error", "code"), [(12, "no_library"), (9, "no_driver"), (4, "no_permission"), (77, "failed")]
)
def test_without_a_driver_the_reason_is_said(
    monkeypatch: pytest.MonkeyPatch, error: int, code: str
) -> None:
    install(monkeypatch, [], init_error=error)
    found = probe(ask_torch=False)
    assert found.nvidia.missing == code
    assert [x.device for x in found.targets] == ["cpu"]
    for language in LANGUAGES:
        assert found.processor.name in probe_text(found, language)


def test_without_the_module_and_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvidia().missing == "no_module"
    install(monkeypatch, [])
    assert nvidia().missing == "no_gpu"


def test_a_gpu_that_fell_off_its_bus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [h200(nvmlDeviceGetPowerUsage=NVMLError(LOST))])
    with pytest.raises(PlannerError) as refusal:
        gpu_state("GPU-NVIDIA H200")
    assert refusal.value.code == "gpu_lost"
    assert gpu_state("GPU-another") is None


def test_only_what_is_there_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [h200()])
    found = probe()
    assert chosen_target(found, None).device == "cuda:0"
    assert chosen_target(found, "cuda").device == "cuda:0"
    assert chosen_target(found, "cpu").is_cpu
    with pytest.raises(InvalidInput) as refusal:
        chosen_target(found, "cuda:3")
    assert refusal.value.values["there"] == ("cuda:0", "cpu")


def test_the_probe_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, [h200()])
    assert main(["measure", "--probe", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["nvidia"] == json.loads(json.dumps(probe_json(probe())))["nvidia"]
    assert data["targets"][0]["accelerator"] == "h200-sxm-141gb"
    assert main(["measure", "--probe", "--lang", "es"]) == 0
    said = capsys.readouterr().out
    for part in ("NVIDIA H200", "691", "NVLink", "999999999"):
        assert part in said


def test_without_torch_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(probing, "_installed", lambda name: name == "transformers")
    monkeypatch.setattr(probing, "version", {"transformers": "5.24.0"}.__getitem__)
    assert main(["measure", "--device", "cpu"]) == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "torch" in said
    assert "make measure-setup" in said
    assert main(["measure", "--probe"]) == 0
    assert "make measure-setup" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("libcudart.so.13: cannot open shared object file\nmore"), "libcudart.so.13"),
        (ImportError("cannot import name 'x'"), "ImportError: cannot import name 'x'"),
    ],
)
def test_a_torch_that_cannot_be_loaded_is_said_in_one_line(
    error: Exception,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(monkeypatch, [])

    def damaged(_name: str) -> ModuleType:
        raise error

    # Installed and damaged, whether this environment has it or not.
    monkeypatch.setattr(probing, "_installed", lambda _name: True)
    monkeypatch.setattr(probing.importlib, "import_module", damaged)
    for verb in (["--probe"], ["--device", "cpu"]):
        assert main(["measure", *verb, "--json", "--lang", "en"]) == 1
        printed = capsys.readouterr()
        assert json.loads(printed.out)["error"]["code"] == "torch_damaged"
        last = printed.err.strip().splitlines()[-1]
        assert said in last
        assert probing.REPAIR in last


@pytest.mark.parametrize("package", ["torch", "transformers"])
@pytest.mark.parametrize("gpus", [[], [h200()]])
def test_a_folder_called_torch_is_said_to_be_broken(
    package: str,
    gpus: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    install(monkeypatch, gpus)
    # As where an installation was interrupted: a folder without content, and no note of the installer's.
    (tmp_path / package).mkdir()
    folder = importlib.machinery.PathFinder.find_spec(package, [str(tmp_path)])
    assert folder is not None
    assert folder.origin is None
    monkeypatch.setattr(probing, "_installed", lambda name: name == package)
    monkeypatch.setattr(probing, "version", not_noted)
    monkeypatch.setitem(sys.modules, package, importlib.util.module_from_spec(folder))
    assert main(["measure", "--probe", "--json", "--lang", "es"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["code"] == "torch_damaged"
    assert printed.err.startswith(f"{package} está instalado, pero no funciona (AttributeError")
    assert printed.err.rstrip().endswith(probing.REPAIR)
    monkeypatch.setattr(probing, "_installed", lambda name: True)
    with pytest.raises(PlannerError, match="torch_damaged"):
        probing.require_torch()


def not_noted(name: str) -> str:
    raise PackageNotFoundError(name)


def test_a_torch_that_no_installer_noted_says_its_version_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = ModuleType("torch")
    built.__version__ = "2.13.0a0+git"  # type: ignore[attr-defined]
    install(monkeypatch, [h200()])
    monkeypatch.setattr(probing, "_installed", lambda name: name == "torch")
    monkeypatch.setattr(probing, "version", not_noted)
    monkeypatch.setitem(sys.modules, "torch", built)
    assert probe().torch == "2.13.0a0+git"


def test_a_torch_of_which_parts_are_missing_is_said_to_be_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half = ModuleType("torch")
    half.__version__ = "2.13.0"  # type: ignore[attr-defined]
    install(monkeypatch, [])
    monkeypatch.setattr(probing, "_installed", lambda name: name == "torch")
    monkeypatch.setitem(sys.modules, "torch", half)
    with pytest.raises(PlannerError, match="torch_damaged") as refusal:
        probe()
    assert "has no attribute 'version'" in str(refusal.value.values["reason"])


def test_what_sets_a_broken_torch_right_installs_again(tmp_path: Path) -> None:
    """Stamps say that everything is installed, as they do where files were lost later."""
    for name in (
        "Makefile",
        "requirements.txt",
        "requirements-dev.txt",
        "requirements-measure.txt",
    ):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    for stamp in (".python", ".app", ".dev", ".measure"):
        (tmp_path / ".venv" / stamp).touch()
    make = [*probing.REPAIR.split(), "PYTHON=/no/such/python"]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "there is no '/no/such/python'" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_an_import_that_fails_is_not_a_file_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> int:
        raise OSError("libtorch.so: cannot open shared object file")

    monkeypatch.setitem(VERBS, "measure", fails)
    with pytest.raises(OSError, match="libtorch"):
        main(["measure"])


# --- The processor ----------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four threads on two cores, 64 GiB, and two last-level caches; nothing limited yet."""
    monkeypatch.setattr(system, "PROC", tmp_path / "proc")
    monkeypatch.setattr(system, "SYS", tmp_path / "sys")
    monkeypatch.setattr(system, "allowed_threads", lambda: (0, 1, 2, 3))
    cpus = [
        f"processor\t: {n}\nmodel name\t: Acme  One\nphysical id\t: 0\ncore id\t: {n % 2}"
        for n in range(4)
    ]
    write(tmp_path / "proc/cpuinfo", "\n\n".join(cpus) + "\n")
    write(tmp_path / "proc/meminfo", f"MemTotal: {64 * 2**20} kB\nMemAvailable: {60 * 2**20} kB\n")
    for n in range(4):
        for index, (level, size, shared) in enumerate(((1, "32K", n), (3, "16M", n % 2))):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{n}/cache/index{index}"
            write(folder / "level", f"{level}\n")
            write(folder / "size", f"{size}\n")
            write(folder / "shared_cpu_list", f"{shared}\n")
    return tmp_path


def test_cores_threads_memory_and_caches(machine: Path) -> None:
    found = system.processor()
    assert (found.name, found.cores, found.threads) == ("Acme One", 2, 4)
    assert found.memory_total_bytes == 64.0 * 2**30
    assert found.cache_bytes == 32.0 * 2**20
    assert found.quota_cores is None


@pytest.mark.parametrize("path", ["/", "/box/inner", "/not/mounted/here"])
def test_a_container_s_limits_count(machine: Path, path: str) -> None:
    write(machine / "proc/self/cgroup", f"0::{path}\n")
    group = machine / "sys/fs/cgroup"
    write(group / "memory.max", f"{8 * 2**30}\n")
    write(group / "memory.current", f"{3 * 2**30}\n")
    write(group / "cpu.max", "150000 100000\n")
    if path == "/box/inner":
        write(group / "box/inner/memory.max", "max\n")
    found = system.processor()
    assert found.memory_total_bytes == 8.0 * 2**30
    assert found.memory_free_bytes == 5.0 * 2**30
    assert found.quota_cores == 1.5


def test_version_1_of_control_groups_counts_too(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n")
    write(machine / "sys/fs/cgroup/memory/box/memory.limit_in_bytes", f"{4 * 2**30}\n")
    write(machine / "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2**63 - 4096}\n")
    write(machine / "sys/fs/cgroup/memory/box/memory.usage_in_bytes", f"{2**30}\n")
    write(machine / "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "200000\n")
    write(machine / "sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n")
    found = system.processor()
    assert (found.memory_total_bytes, found.memory_free_bytes) == (4.0 * 2**30, 3.0 * 2**30)
    assert found.quota_cores == 2.0


def test_only_the_threads_that_the_program_may_run_on_count_as_busy(machine: Path) -> None:
    """Of one thread of four, the load of the other three would be several times all there is."""
    each = {0: "100 0 50 800 20 5 5 40 0 0", 1: "900 0 0 100 0 0 0 0 0 0"}
    lines = [f"cpu  {each[1]}", *(f"cpu{n} {text}" for n, text in each.items()), "intr 1 2 3"]
    write(machine / "proc/stat", "\n".join(lines) + "\n")
    tick = os.sysconf("SC_CLK_TCK")
    for threads, busy in (((0,), 200), ((1,), 900), ((0, 1), 1100)):
        found = system.ticks(7.0, threads)
        assert found is not None
        assert (found.busy_s, found.wall_s) == (busy / tick, 7.0)
    assert system.ticks(7.0, (5,)) is None


def test_a_system_that_says_nothing_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "PROC", tmp_path)
    monkeypatch.setattr(system, "SYS", tmp_path)
    found = system.processor()
    assert found.cores >= 1
    assert found.cache_bytes is None
    assert system.ticks(0.0, (0,)) is None
