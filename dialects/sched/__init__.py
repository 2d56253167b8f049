"""The `sched` dialect: loop nests, fused loops and schedule files of structured ops."""
