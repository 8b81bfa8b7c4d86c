VERSION = "0.2.0"  # which the changelog works on; CMake reads it too
