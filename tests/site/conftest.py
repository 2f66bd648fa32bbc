"""The browser of the site's tests: starting one takes longer than most of them."""

import pytest

from tests.browser.chromium import chromium, need, quiet_page


@pytest.fixture(scope="package")
def browser():
    need("nbconvert")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Returns written(pages, *site), which writes a site with these pages to a new folder and
    returns the folder."""
    need("nbconvert", "playwright")
    from scripts.site.files import write_static
    from scripts.site.page import write_all

    def written(pages, *site):
        folder = tmp_path_factory.mktemp("site")
        write_static(folder)
        write_all(pages, folder, *site)
        return folder

    return written


@pytest.fixture
def opened(browser, site):
    """Returns opened(path), which opens a page of the module's `site` from its file. Checks at the
    end that there was no error and no request to other machines."""
    with quiet_page(browser, site.as_uri()) as page:
        yield lambda path: page.goto(f"{site.as_uri()}/{path}") and page
