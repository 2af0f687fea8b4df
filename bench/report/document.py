"""Makes the Markdown of a report from what the programs wrote."""

from results import number

_STATES = {"aim": "aim", "yes": "yes", "no": "**no**", "not measured": "not measured", "no bound": "-"}


def _cell(value):
    if value is None or isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value)
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def table(headings, rows, right):
    """A Markdown table; `right` is a set of the columns to align right."""
    lines = ["| " + " | ".join(_cell(heading) for heading in headings) + " |"]
    lines.append("|" + "|".join("---:" if i in right else "---" for i in range(len(headings))) + "|")
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def rows_table(rows):
    """The columns of a program's rows, which are dictionaries, in the order in which they first appear."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name, "-") for name in columns] for row in rows]
    # Sizes and counts are labels to be read as they are, not figures to be rounded.
    for line in cells:
        for i, cell in enumerate(line):
            if isinstance(cell, int) and not isinstance(cell, bool):
                line[i] = str(cell)
    right = {
        i
        for i, name in enumerate(columns)
        if all(not isinstance(row[name], str) for row in rows if name in row)
    }
    return table(columns, cells, right)


def bar_table(rows):
    """The table of what is asked for."""

    def bound(row, value):
        if value is None:
            return "-"
        text = f"{value:,.3f}".rstrip("0").rstrip(".")
        return f"{text} {row.unit}" if row.unit else text

    headings = ["what", "at least", "aim", "measured", "met", ""]
    cells = [
        [
            row.what,
            bound(row, row.at_least),
            bound(row, row.aim),
            number(row.measured, row.unit),
            _STATES[row.met],
            row.detail,
        ]
        for row in rows
    ]
    return table(headings, cells, {1, 2, 3})


def common_conditions(reports):
    """The conditions that are the same in all of them."""
    every = [report.get("conditions", {}) for report in reports]
    if not every:
        return {}
    return {
        name: value
        for name, value in every[0].items()
        if all(other.get(name) == value for other in every)
    }


def _conditions(conditions):
    return "\n".join(f"- {name}: {value}" for name, value in conditions.items())


def _section(run, common):
    report = run.report or {}
    parts = [f"## {run.name}", report.get("question", ""), f"`{run.command}`"]
    if run.skipped:
        parts.append(f"**Skipped:** {run.skipped}.")
    if run.failure:
        parts.append(f"**Failed:** {run.failure}")
        if run.last_words:
            parts.append("```\n" + run.last_words + "\n```")
    own = {name: value for name, value in report.get("conditions", {}).items() if name not in common}
    if own:
        parts.append(_conditions(own))
    if run.plot:
        parts.append(f"![{run.name}]({run.plot})")
    for name, rows in report.get("tables", {}).items():
        parts.append(f"### {report.get('titles', {}).get(name) or name}")
        parts.append(rows_table(rows) if rows else "No rows.")
    parts.append("\n".join(f"- {note}" for note in report.get("notes", [])))
    return "\n\n".join(part for part in parts if part)


def document(runs, command, bar_rows):
    """The whole report."""
    reports = [run.report for run in runs if run.report]
    common = common_conditions(reports)
    failed = [run.name for run in runs if run.failure]
    skipped = [f"{run.name} ({run.skipped})" for run in runs if run.skipped]
    parts = ["# Benchmarks", f"Made by `{command}`."]
    if failed:
        parts.append(f"**Failed: {', '.join(failed)}.** What they measured, if anything, may be incomplete.")
    if skipped:
        parts.append(f"**Skipped: {', '.join(skipped)}.**")
    parts += [
        "## The bar",
        'What is asked for, and what was measured in this run. "met": aim, yes (at least), or no; a figure that is '
        "missing is not met.",
        bar_table(bar_rows),
        "## Conditions",
        "The same for all programs; what differs is with each.",
        _conditions(common) or "None: nothing was measured.",
    ]
    parts += [_section(run, common) for run in runs]
    return "\n\n".join(parts) + "\n"
