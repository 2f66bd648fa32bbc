"""Which version of a package is installed."""

from importlib.metadata import PackageNotFoundError, version


def installed(package: str) -> str | None:
    """Its version; None where no distribution has that name, as where a vendor builds it under
    another one."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
