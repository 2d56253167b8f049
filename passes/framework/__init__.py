"""What passes are made with: their registry, pipelines and the runner, rewriting, and what watches a run."""
