"""The `sched` dialect: how structured ops are computed, loops that they share, and files of schedules."""
