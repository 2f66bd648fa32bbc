"""Small ES modules are joined into the one that a widget can send."""

import re

import pytest

from debubble.views.javascript import one_module
from debubble.views.timeline.widget import SOURCE


def test_what_is_imported_stands_before_it_once_and_nothing_is_imported_any_more(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "words.js").write_text("export const WORD = 1;\n")
    (tmp_path / "room/more.js").write_text(
        'import { WORD } from "../words.js";\nexport let MORE;\n'
    )
    entry = tmp_path / "entry.js"
    entry.write_text(
        'import { MORE } from "./room/more.js";\n'
        'import { WORD } from "./words.js";\nexport default {};\n'
    )
    assert one_module(entry) == "const WORD = 1;\n\nlet MORE;\n\nexport default {};\n"


def test_two_things_of_one_name_are_refused(tmp_path):
    (tmp_path / "words.js").write_text("function add() {}\n")
    entry = tmp_path / "entry.js"
    entry.write_text('import { add } from "./words.js";\nconst add = 1;\n')
    with pytest.raises(ValueError, match=r"entry\.js and words\.js both name something add"):
        one_module(entry)


def test_the_timeline_is_one_module_with_one_thing_to_export():
    assert re.findall(r"^(?:import|export)\b.*", SOURCE, re.MULTILINE) == ["export default {"]
