"""What transitions.py makes of a table, and which tables it refuses."""

import pytest
import transitions

TABLE = """
# a comment
door  open    push  shut  bang
door  open    pull  open  illegal
door  shut    push  shut  -
door  shut    pull  open  creak cold
"""


def test_every_line_is_a_branch():
    text = transitions.to_promela(transitions.read_table(TABLE))
    assert "#define DOOR_OPEN 0\n#define DOOR_SHUT 1\n" in text
    assert ":: door_state[c] == DOOR_OPEN -> door_bang(c); door_state[c] = DOOR_SHUT" in text
    assert ":: door_state[c] == DOOR_OPEN -> assert(false)" in text
    assert ":: door_state[c] == DOOR_SHUT -> skip" in text
    assert ":: door_state[c] == DOOR_SHUT -> door_creak(c); door_cold(c); door_state[c] = DOOR_OPEN" in text


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (TABLE.replace("door  shut    push  shut  -\n", ""), "door shut push has no line"),
        (TABLE + "door  shut    push  shut  -\n", "is there already"),
        (TABLE.replace("open  creak", "ajar  creak"), "ajar is no state"),
        ("door open push\n", "were expected"),
    ],
)
def test_a_table_with_a_mistake_is_refused(table, why):
    with pytest.raises(transitions.TableError, match=why):
        transitions.read_table(table)
