"""The basis of every dialect: the bindings (imported in `mlir` alone), types, attributes, locations, the weights beside a module."""
