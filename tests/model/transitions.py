#!/usr/bin/python3
"""Turns transitions.txt into Promela: transitions.py TABLE > transitions.pml

For each event of a machine there is an inline that moves `<machine>_state[c]` and has the line's effects, each an
inline `<machine>_<effect>(c)` of the model's. A step that the table calls illegal fails an assertion.
"""

import sys


class TableError(Exception):
    """A line of the table that cannot be used, or a pair that is missing."""


def read_table(text):
    """{machine: {(state, event): (next state, [effect])}}, in the order of the lines."""
    machines = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split("#", 1)[0].split()
        if not fields:
            continue
        if len(fields) < 5:
            raise TableError(f"line {number}: machine, state, event, next state and effects were expected: {line}")
        machine, state, event, following, *effects = fields
        table = machines.setdefault(machine, {})
        if (state, event) in table:
            raise TableError(f"line {number}: {machine} {state} {event} is there already")
        table[state, event] = (following, [] if effects == ["-"] else effects)
    for machine, table in machines.items():
        states = list(dict.fromkeys(state for state, _ in table))
        events = list(dict.fromkeys(event for _, event in table))
        for state in states:
            for event in events:
                if (state, event) not in table:
                    raise TableError(f"{machine} {state} {event} has no line")
        for following, _ in table.values():
            if following not in states:
                raise TableError(f"{machine}: {following} is no state")
    return machines


def to_promela(machines):
    """The text of transitions.pml."""
    out = ["/* Made from transitions.txt by transitions.py. */"]
    for machine, table in machines.items():
        states = list(dict.fromkeys(state for state, _ in table))
        events = list(dict.fromkeys(event for _, event in table))
        out += [f"#define {machine.upper()}_{state.upper()} {number}" for number, state in enumerate(states)]
        for event in events:
            out += [f"inline {machine}_{event}(c) {{", "  if"]
            for state in states:
                following, effects = table[state, event]
                steps = []
                for effect in effects:
                    steps.append("assert(false)" if effect == "illegal" else f"{machine}_{effect}(c)")
                if following != state:
                    steps.append(f"{machine}_state[c] = {machine.upper()}_{following.upper()}")
                out.append(
                    f"  :: {machine}_state[c] == {machine.upper()}_{state.upper()} -> " + "; ".join(steps or ["skip"])
                )
            out += ["  fi", "}"]
    return "\n".join(out) + "\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        print(to_promela(read_table(file.read())), end="")


if __name__ == "__main__":
    main()
