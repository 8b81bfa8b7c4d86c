"""What a recording writes: manifest, goldens and weights."""
