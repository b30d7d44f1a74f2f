"""What a pod says, as pure values: no input or output, no policy."""
