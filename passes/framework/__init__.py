"""The framework of passes: registry, pipelines, runner, rewriting, and instrumentation."""
