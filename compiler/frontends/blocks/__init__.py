"""Builders of compositions of graph ops that belong to no format: attention, resampling, recurrence, scatters and the like."""
