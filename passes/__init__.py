"""Rewrites and lowerings, one folder per step of the pipeline. The registry imports them when it is asked, which registers them."""
