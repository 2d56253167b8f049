"""Analyses of models: memory plan, kernel launches, interpretation of levels, comparison of results."""
