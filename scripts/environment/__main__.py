"""Makes the environment of this checkout, for `scripts/make-environment` and so for every `make`.

VENV names the folder, which is `.venv` by default. A folder outside the checkout is shared: its
first user fills it, and each checkout gets a small `.venv` of its own in front of it (`places`).
`requirements` chooses the packages, `installer` installs them, and `checkout` adds the packages and
commands of this checkout. This code needs only Python itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import checkout
import places
import wheelhouse
from failure import Failure
from installer import Installer
from requirements import EXTRAS, Torch, choose_torch, fingerprint, summary

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--with", dest="extra", choices=EXTRAS, default="lab")
    parser.add_argument("--where", action="store_true", help="print the folder, make nothing")
    parser.add_argument("--front-of", type=Path, help="only the front of this checkout, of VENV")
    parser.add_argument("--base-only", action="store_true", help="no front in this checkout")
    parser.add_argument("--wheelhouse", action="store_true", help="fill WHEELS, for hosts offline")
    wanted = parser.parse_args()
    try:
        torch = choose_torch(os.environ.get("TORCH", ""))
        if wanted.wheelhouse:
            wheelhouse.fill(ROOT, torch, wanted.extra)
            return
        if wanted.front_of:
            root = wanted.front_of.resolve()
            put_in_front(places.find(root, os.environ.get("VENV", "")), root)
            return
        where = places.find(ROOT, os.environ.get("VENV", ""))
        if wanted.where:
            print(where.front)
        else:
            make(where, torch, wanted.extra)
            if not wanted.base_only:
                put_in_front(where, ROOT)
    except Failure as failure:
        sys.exit(str(failure))
    except KeyboardInterrupt:
        sys.exit("\nStopped. Run it again, it goes on with what has arrived.")
    except OSError as error:
        reason = error.strerror or error
        sys.exit(f"{error.filename or 'the environment'} can't be made: {reason}")


def make(where: places.Places, torch: Torch, extra: str) -> None:
    """Installs the packages of `extra` that the base lacks. If everything is current, it only reads
    one file. Raises Failure if the base lacks some and belongs to someone else."""
    stamp = where.stamp()
    if not stamp.holds(fingerprint(ROOT), extra, asked_python()):
        if not where.may_write_base():
            raise Failure(
                f"{where.base} lacks what this checkout asks for ({extra}), and is not yours to "
                f"change: ask its owner to run `VENV={where.base} make install` with this "
                "version, or make your own in another folder"
            )
        with where.alone():
            stamp = where.stamp()
            if not stamp.holds(fingerprint(ROOT), extra, asked_python()):
                fill(where, torch, extra, stamp)


def put_in_front(where: places.Places, root: Path) -> None:
    if where.is_shared and not where.front_is_current():
        places.make_front(where)
    checkout.link(root, where.front)


def fill(where: places.Places, torch: Torch, extra: str, stamp: places.Stamp) -> None:
    extras = sorted({*stamp.extras, extra})
    print(summary(ROOT, where.base, torch), flush=True)
    installer = Installer(where.base, ROOT, compiles=where.is_shared)
    if not (stamp.is_whole and installer.python_fits(asked_python())):
        where.clear()
        installer.make_venv()
    for one in extras:
        installer.install(torch, one)
    places.quiet_jupyterlab(where.base)
    where.write_stamp(fingerprint(ROOT), extras)
    print(f"Set up in {where.base}.", flush=True)


def asked_python() -> str:
    """Returns the version of the interpreter that PYTHON names, such as `3.13`; "" without
    PYTHON."""
    if not os.environ.get("PYTHON"):
        return ""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


if __name__ == "__main__":
    main()
