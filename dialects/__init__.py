"""Stepwell's dialects: definitions of ops, types and attributes with verifiers, inference and numpy reference. No rewrites."""
