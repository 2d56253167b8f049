"""What every dialect is made with: the bindings (imported in `mlir` alone), types, attributes, locations, the weights beside a module."""
