"""From files and pipes to chunks of numbers: sources, columns, encoding, target, stream."""
