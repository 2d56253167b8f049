"""Bundles: compiled models as libraries with an interface in C, which run without Python."""
