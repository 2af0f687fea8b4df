"""What the benchmarks' results are held against: one row for each thing asked for, with what was measured.

Reads the JSON that the programs write. A figure that is missing is said to be missing; it never counts as met.
"""

import cluster_bars
import cost_bars
import crowd_bars
import latency_bars
import rate_bars
from results import Results


def compute(reports, instructions=None):
    """The rows. `reports`: each program's JSON; `instructions`: counts per hot call, by fabric, if they are known."""
    results = Results(reports)
    return [
        *latency_bars.rows(results),
        *rate_bars.rows(results),
        *crowd_bars.rows(results),
        *cluster_bars.rows(results),
        *cost_bars.rows(results, instructions),
    ]
