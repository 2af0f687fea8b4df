"""What the programs wrote, and a line of the table that it is held against."""

import dataclasses
import math

TCP = "tcp;ofi_rxm"
SHM = "shm"
KIB = 1024
MIB = 1024 * KIB


@dataclasses.dataclass
class Row:
    """A line of the table. `at_least` and `aim` bound `measured` from above, or from below if more is better."""

    what: str
    at_least: float | None
    aim: float | None
    measured: float | None
    unit: str = ""  # the unit of all three; a ratio has none
    more_is_better: bool = False
    detail: str = ""  # where the figure is from, or what belongs to it

    @property
    def met(self):
        """"aim", "yes", "no", "not measured", or "no bound" where there is nothing to hold it against."""
        if self.measured is None or not math.isfinite(self.measured):
            return "not measured"
        if self.aim is not None and self._within(self.aim):
            return "aim"
        if self.at_least is None:
            return "no bound" if self.aim is None else "no"
        return "yes" if self._within(self.at_least) else "no"

    def _within(self, bound):
        return self.measured >= bound if self.more_is_better else self.measured <= bound


class Results:
    """The programs' JSON, by program."""

    def __init__(self, reports):
        self._reports = reports

    def rows(self, program, table, **labels):
        """The rows of a table that have these labels, where a value may be a set of allowed ones."""
        report = self._reports.get(program) or {}
        result = []
        for row in report.get("tables", {}).get(table, []):
            if all(
                row.get(name) in wanted if isinstance(wanted, (set, frozenset)) else row.get(name) == wanted
                for name, wanted in labels.items()
            ):
                result.append(row)
        return result


def numbers(rows, column):
    """(number, row) of the rows that have one."""
    result = []
    for row in rows:
        value = row.get(column)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            result.append((value, row))
    return result


def pick(choose, rows, column):
    """The number that `choose` (min or max) takes, and its row; (None, {})."""
    return choose(numbers(rows, column), key=lambda found: found[0], default=(None, {}))


def size_name(count):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"


def number(value, unit=""):
    """About four digits that count, for people; "-" for none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return "-"
    size = abs(value)
    if size >= 10000:
        text = f"{value:,.0f}"
    elif value == int(value):
        text = f"{value:.0f}"
    elif size >= 1000:
        text = f"{value:.1f}"
    elif size >= 10:
        text = f"{value:.2f}"
    elif size >= 0.1:
        text = f"{value:.3f}"
    else:
        text = f"{value:.3g}"
    return f"{text} {unit}" if unit else text
