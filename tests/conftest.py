"""Fixtures every test may use, and what makes a run the same on every machine.

No example is random here: hypothesis draws the same ones on every machine, in every order and
whatever else is tested, and no clock judges them.  What passed once passes elsewhere, and a change
is not refused for what another one broke.  To hunt with new examples::

    .venv/bin/pytest -m hypothesis --hypothesis-profile random
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

# NumPy's threads wait for each other in a loop: with a worker a core they double the time; it asks
# when loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
import runs
from example_counts import examples
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

from turnbuckle.cli.run import _YOUNG

ROOT = Path(__file__).resolve().parents[1]
#: Fixtures of several rooms: the command line in this process; answers and a browser
#: (``tests/builders``).
pytest_plugins = ["command_line", "answers"]

#: What a terminal, a batch system or a user may set, and what changes what Turnbuckle prints or
#: does.
WISHES = (
    *(
        "COLUMNS",
        "LINES",
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
    ),
    *(
        "JUPYTER_COLUMNS",
        "JUPYTER_LINES",
        "TURNBUCKLE_NO_CACHE",
        "CUDA_INJECTION64_PATH",
        "NVTX_INJECTION64_PATH",
    ),
)
STARTS = ("TB_", "STANDIN_", "SLURM_", "OMPI_", "PMI", "MV2_")
for name in [n for n in os.environ if n in WISHES or n.startswith(STARTS)]:
    del os.environ[name]

settings.register_profile(
    "random", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(
    "same", settings.get_profile("random"), max_examples=100, derandomize=True, database=None
)
settings.load_profile("same")


def pytest_configure() -> None:
    """The profile stands: where examples are to be the same, they may not depend on the constants
    in modules that happen to be loaded.
    """
    if settings().derandomize and hasattr(providers, "_get_local_constants"):
        none = providers._local_constants
        providers._get_local_constants = lambda: none


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each property test draw its share of examples."""
    tests = {test for item in items if is_hypothesis_test(test := getattr(item, "obj", None))}
    for test in tests:
        asked = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = settings(
            asked, max_examples=examples(asked.max_examples)
        )


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the garbage collector does not look through it again
    and again.

    It looks as seldom as in the program itself.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The project's shared folder of real traces; a clone without it skips the test, the project's
    own CI never does.
    """
    folder = Path(os.environ.get("TURNBUCKLE_SHARED", ROOT.parent / "shared"))
    if not (folder / "traces" / "truth.json").exists():
        if os.environ.get("TURNBUCKLE_REQUIRE_ALL"):
            pytest.fail(f"the shared traces are required here but {folder} does not hold them")
        pytest.skip("the shared real traces are not beside this clone (set TURNBUCKLE_SHARED)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _samples_read_once() -> Iterator[None]:
    """A recording that ships is read once, whoever asks for it: its `Run` holds its profile, graph
    and fits.
    """
    with runs.read_once(runs.samples()):
        yield


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never read or write the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
