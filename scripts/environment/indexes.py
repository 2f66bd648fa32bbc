"""Passes pip's package indexes on to uv, which reads none of pip's settings.

A company's mirror is configured once, in pip.conf or by PIP_… variables, and both tools use it.
"""

from __future__ import annotations

import configparser
import os
import sys
from pathlib import Path

import places

SETTINGS = ("index-url", "extra-index-url", "find-links", "cert", "trusted-host", "no-index")


def pip_settings() -> dict[str, str]:
    """Returns pip's settings about indexes and certificates. Later files win over earlier ones, and
    variables over files, as in pip."""
    found: dict[str, str] = {}
    for path in _files():
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # pip itself reports what is wrong with the file, if pip is used.
        for section in ("global", "install"):
            if parser.has_section(section):
                found |= {key: text for key, text in parser.items(section) if key in SETTINGS}
    for key in SETTINGS:
        text = os.environ.get("PIP_" + key.upper().replace("-", "_"))
        if text:
            found[key] = text
    return found


def for_uv(settings: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Returns the options of `uv pip install`, and variables of its environment, that mean the same
    as pip's settings."""
    options = []
    if settings.get("index-url"):
        options += ["--default-index", settings["index-url"]]
    for key, option in (("extra-index-url", "--index"), ("find-links", "--find-links")):
        for place in settings.get(key, "").split():
            options += [option, place]
    if settings.get("extra-index-url"):
        # pip takes the best version of all indexes, uv by default any version of the first index
        # that has the package.
        options += ["--index-strategy", "unsafe-best-match"]
    for host in settings.get("trusted-host", "").split():
        options += ["--allow-insecure-host", host]
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        options += ["--no-index"]
    return options, {"SSL_CERT_FILE": settings["cert"]} if settings.get("cert") else {}


def _files() -> list[Path]:
    named = os.environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return []
    roots = os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    home = places.home()
    own = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return [
        *(Path(root) / "pip/pip.conf" for root in roots.split(":")),
        Path("/etc/pip.conf"),
        home / ".pip/pip.conf",
        own / "pip/pip.conf",
        Path(sys.prefix) / "pip.conf",
        *([Path(named)] if named else []),
    ]
