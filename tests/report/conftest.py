"""Results to show, and a real browser."""

import shutil

import numpy as np
import pytest

from ies_gpu import datasets, select_coordinates
from tests.extras import needed

HOSTILE = "<script>alert(1)</script>"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --use-angle=swiftshader --enable-unsafe-swiftshader"
)


@pytest.fixture(scope="session")
def strip():
    """A strip in two coordinates, its points, and columns of each kind with names that attack."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        data = datasets.load("D1", n_samples=1000)
        selection = select_coordinates(data.X, intrinsic_dim=2, subset_size=2, bandwidth=0.6)
    words = np.where(data.X[:, 0] > 0, HOSTILE, "left & <b>bold</b>")
    return selection, data.X, {HOSTILE: data.X[:, 0], "side": words}


@pytest.fixture(scope="session")
def torus():
    """A torus in three coordinates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        data = datasets.load("D7", n_samples=700)
        return select_coordinates(data.X, intrinsic_dim=2, subset_size=3, bandwidth=2.5)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Debian's Chromium without a window; one for all tests."""
    webdriver = needed("selenium.webdriver", "test-all")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium and its driver are not installed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}", "--window-size=1600,1000"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(service=webdriver.ChromeService(driver), options=options)
    made.set_page_load_timeout(600)
    yield made
    made.quit()
