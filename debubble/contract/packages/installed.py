"""Looks up which version of a package is installed."""

from importlib.metadata import PackageNotFoundError, version


def installed(package: str) -> str | None:
    """Returns the version of the installed package, or None if no distribution has that name, as
    when a vendor builds it under another name."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
