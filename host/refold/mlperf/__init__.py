"""MLPerf Tiny: the public benchmark's protocol, spoken by the host.

``docs/mlperf-tiny.md`` describes it. The firmware's side is
``firmware/src/mlperf``; :mod:`refold.mlperf.launch` lets the public runner itself
drive the native board.
"""
