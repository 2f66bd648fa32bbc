"""The browser of the site's tests: starting one takes longer than most of them."""

import pytest

from tests.browser.chromium import chromium, need


@pytest.fixture(scope="package")
def browser():
    need("nbconvert")
    with chromium() as browser:
        yield browser
