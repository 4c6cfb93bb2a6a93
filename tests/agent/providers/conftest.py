"""Every adapter, and each of the two libraries that carry what it says."""

import pytest

from tests.kit.adapters import ADAPTERS, Adapter, Library


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    assert isinstance(request.param, Adapter)
    return request.param


@pytest.fixture(params=["http", "sdk"])
def wire(request: pytest.FixtureRequest) -> Library:
    return "http" if request.param == "http" else "sdk"
