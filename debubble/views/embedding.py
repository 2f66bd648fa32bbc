"""The data of a view for a page without a kernel, stored in the notebook beside its picture.

`make site` turns it into the live view: the same drawing code, on data that was recorded before.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .planes import to_planes

MIME = "application/vnd.debubble.view+json"
BYTES = ("events", "bubbles", "ghost_events", "ghost_bubbles")

STORING = "DEBUBBLE_STORING"
"""The environment variable that is 1 while notebooks are run to be stored. Only then views embed
their data, which would not be used elsewhere."""

State = Mapping[str, object]
"""The traits of a timeline's widget: `facts`, and the four columns of bytes."""
Embedded = tuple[Mapping[str, object], Sequence[State]]
"""The data that a view's browser part needs, and the timelines in it."""
Bundle = tuple[dict[str, object], dict[str, object]]
"""The value that Jupyter expects from a view: data and metadata by MIME type."""


def embed(
    view: str, about: Mapping[str, object], states: Sequence[State] = ()
) -> dict[str, object]:
    """Returns the embedded data of a view. `view` is the name of the view, `about` the data that it
    needs, `states` the timelines in it. Packed into text: 4 bytes with the length of a JSON header,
    the header, the columns of all timelines as planes one after the other, and all that
    deflated."""
    chunks: list[bytes] = []
    places, offset = [], 0
    shared: dict[str, Any] = {}
    for state in states:
        facts = dict(state["facts"])  # type: ignore[call-overload]  # traitlets' Dict has no types
        shared = {name: facts.pop(name) for name in ("layout", "palette")}
        place: dict[str, object] = {"facts": facts}
        for name in BYTES:
            data = bytes(state[name])  # type: ignore[call-overload]  # nor has its Bytes
            which = facts["before" if name.startswith("ghost") else "after"]
            if data:
                what = name.removeprefix("ghost_")
                data = to_planes(data, which[what], shared["layout"][what])
            place[name] = [offset, len(data)]
            chunks.append(data)
            offset += len(data)
        places.append(place)
    whole_header = {**about, "shared": shared, "states": places, "as_planes": True}
    header = json.dumps(whole_header, ensure_ascii=False).encode()
    whole = b"".join([len(header).to_bytes(4, "little"), header, *chunks])
    return {"view": view, "data": base64.b64encode(zlib.compress(whole, 9)).decode()}


def with_embedding(bundle: object, view: str, embedded: Callable[[], Embedded]) -> Bundle:
    """Returns a widget's own mime bundle, with the data for a page without a kernel if notebooks
    are being stored."""
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
    if os.environ.get(STORING) == "1":
        data = {**data, MIME: embed(view, *embedded())}
    return dict(data), dict(metadata)
