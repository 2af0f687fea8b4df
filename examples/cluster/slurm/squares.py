"""A program for `invoker up`: one Python function on all nodes' executors, with data that is sent to each of them once."""

import sys

import invoker
import numpy

with invoker.connect() as cluster, cluster.lease(executors=len(cluster), spread="server") as lease:

    @lease.function
    def weighted(weights, x):
        return float((weights * x).sum())

    weights = lease.put(numpy.arange(1000.0))
    results = list(weighted.map([weights] * 2000, range(2000)))
    assert results == [499500.0 * x for x in range(2000)]
    print("%d calls on %d nodes, with certificates of the job's own" % (len(results), len(set(lease.server.split(",")))))
sys.exit(7)
